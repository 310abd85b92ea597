/* The texts of the calibrations that are compiled in; CMake writes them from files. */
#ifndef TUTTI_SIM_CALIB_BUILTIN_H
#define TUTTI_SIM_CALIB_BUILTIN_H

#include <stddef.h>

struct tutti_calib_text {
    const char *name; /* the file, as messages call it */
    const char *text; /* without a zero at its end */
    size_t bytes;
};

extern const struct tutti_calib_text tutti_calib_text_fitted;
extern const struct tutti_calib_text tutti_calib_text_nccl;

#endif
