/* Tuples of words, each kept once and numbered: equal tuples have equal numbers. */
#ifndef TUTTI_SIM_STEP_TUPLES_H
#define TUTTI_SIM_STEP_TUPLES_H

#include <stddef.h>
#include <stdint.h>

struct tutti_tuples {
    uint64_t *words;
    size_t word_count;
    size_t word_capacity;
    size_t *first; /* [number], and one past the last */
    uint32_t count;
    uint32_t capacity;
    uint32_t *slots; /* number + 1, or 0; a power of two of them, at most half of them taken */
    size_t slot_count;
};

/* The number of a tuple; UINT32_MAX: no memory. A zeroed struct holds none. */
uint32_t tutti_tuples_number(struct tutti_tuples *tuples, const uint64_t *words, size_t count);
/* The same of a text, NULL being one as well. */
uint32_t tutti_tuples_text(struct tutti_tuples *tuples, const char *text);
/* Forgets all tuples, and keeps the memory. */
void tutti_tuples_clear(struct tutti_tuples *tuples);
void tutti_tuples_done(struct tutti_tuples *tuples);

#endif
