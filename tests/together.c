/* Most tests in one program (TUTTI_TESTS_TOGETHER): which of them is meant, its name says. */
#include <stdio.h>
#include <string.h>

#define TOGETHER(NAME) int NAME(int argc, char **argv);
#include "tests/together.h"
#undef TOGETHER

#define TOGETHER(NAME) {#NAME, NAME},
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} all[] = {
#include "tests/together.h"
};

int main(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = argc == 0 ? "" : slash == NULL ? argv[0] : slash + 1;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].run(argc, argv);
    (void)fprintf(stderr, "no test '%s' in here\n", name);
    return 1;
}
