/* A program's own process: its standard descriptors, and a sink that prints to them. */
#ifndef TUTTI_TOOLS_TERMINAL_H
#define TUTTI_TOOLS_TERMINAL_H

struct tutti_err;
struct tutti_sink;

/* What main() of a program of commands does: makes the words of its command line a call that prints
 * to the standard descriptors, and returns the exit code. */
int tutti_terminal_main(int argc, char **argv,
                        int (*call)(int argc, char **argv, struct tutti_sink *sink,
                                    struct tutti_err *err));

#endif
