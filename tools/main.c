/* The command `tutti`: its words are a call of libtutti_cli. */
#include "tools/cli.h"
#include "tools/terminal.h"

int main(int argc, char **argv)
{
    return tutti_terminal_main(argc, argv, tutti_cli_call);
}
