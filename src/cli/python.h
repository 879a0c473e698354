/* The Python package that comes with the command. */
#ifndef CLI_PYTHON_H
#define CLI_PYTHON_H

/* Lets the Pythons that this process starts find it: where it is beside the executable's folder, as in a source
 * tree, an installation or a bundle, $PYTHONPATH is extended by it. What is there already goes first. */
void at_cli_python_path(void);

#endif
