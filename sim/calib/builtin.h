/* The text of the calibration that is compiled in; CMake writes it from a file. */
#ifndef TUTTI_SIM_CALIB_BUILTIN_H
#define TUTTI_SIM_CALIB_BUILTIN_H

#include <stddef.h>

extern const unsigned char tutti_calib_builtin_text[];
extern const size_t tutti_calib_builtin_bytes;

#endif
