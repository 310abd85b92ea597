/* The text of the prices that are compiled in; CMake writes it from a file. */
#ifndef TUTTI_SIM_PRICES_BUILTIN_H
#define TUTTI_SIM_PRICES_BUILTIN_H

#include <stddef.h>

struct tutti_prices_text {
    const char *name; /* the file, as messages call it */
    const char *text; /* without a zero at its end */
    size_t bytes;
};

extern const struct tutti_prices_text tutti_prices_text;

#endif
