/* The Python package that comes with the command. */
#ifndef CLI_PYTHON_H
#define CLI_PYTHON_H

/* Lets the Pythons that this process starts find it: where it is beside the executable's folder, as in a source
 * tree, an installation or a bundle, $PYTHONPATH is extended by it. What is there already goes first. */
void at_cli_python_path(void);
/* The command of a worker in Python, ended by NULL: what $ATTUNE_PYTHON names, else python3. The package is found. */
void at_cli_python_worker(const char *command[4]);

#endif
