/* Event queues to compare; each keeps ids with times, an id at most once, ties in order of put. */
#ifndef TUTTI_TESTS_BENCH_QUEUE_CANDIDATES_H
#define TUTTI_TESTS_BENCH_QUEUE_CANDIDATES_H

#include <stdint.h>

#include "runtime/units.h"

/* Memory that runs out ends the program. */
struct candidate {
    const char *name; /* NULL ends the table */
    void *(*open)(uint32_t id_count);
    void (*put)(void *queue, uint32_t id, tutti_ps at_ps); /* or moves it there */
    void (*drop)(void *queue, uint32_t id);                /* no-op if it is not there */
    uint32_t (*pop)(void *queue);
    void (*close)(void *queue);
};

extern const struct candidate queue_candidates[];

/* Those of sorted buckets, with a file each. */
void *calendar_open(uint32_t id_count);
void calendar_put(void *queue, uint32_t id, tutti_ps at_ps);
void calendar_drop(void *queue, uint32_t id);
uint32_t calendar_pop(void *queue);
void calendar_close(void *queue);
void *ladder_open(uint32_t id_count);
void ladder_put(void *queue, uint32_t id, tutti_ps at_ps);
void ladder_drop(void *queue, uint32_t id);
uint32_t ladder_pop(void *queue);
void ladder_close(void *queue);

#endif
