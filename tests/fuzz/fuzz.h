/* What a fuzz target defines; libFuzzer or replay.c calls it. */
#ifndef TUTTI_TESTS_FUZZ_FUZZ_H
#define TUTTI_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* One input; returns 0. What must not be aborts (assert, a sanitizer). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
