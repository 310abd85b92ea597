/* The program `tutti-fit`: the laboratory, where the shipped costs are fitted and judged. */
#include "tools/fit/commands.h"
#include "tools/terminal.h"

int main(int argc, char **argv)
{
    return tutti_terminal_main(argc, argv, tutti_fit_call);
}
