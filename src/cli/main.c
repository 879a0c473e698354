#include <fcntl.h>
#include <unistd.h>

#include "cli/cli.h"

/* A standard stream that the caller closed would lend its number to the next file opened, and what is printed would
 * land in that file. The wrong direction keeps writing an error, as it should be. */
static void occupy_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (fcntl(fd, F_GETFD) == -1) {
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int main(int argc, char **argv)
{
    occupy_standard_streams();
    at_cli_catch_signals();
    return at_cli_main(argc, (const char *const *)argv, stdout, stderr);
}
