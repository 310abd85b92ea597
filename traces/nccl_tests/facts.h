/* What a log says around its tables: versions, devices, which test it was. */
#ifndef TUTTI_TRACES_NCCL_TESTS_FACTS_H
#define TUTTI_TRACES_NCCL_TESTS_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "traces/nccl_tests.h"

/* Which test a log says it is. */
enum { LOG_TEST_UNKNOWN = -1, LOG_TEST_OTHER = -2 }; /* else an enum tutti_collective */

struct tutti_log_facts {
    char version[64];
    char library[64];
    char device[96];          /* the first */
    bool devices_differ;      /* another has another name */
    const char *network;      /* a word of net=; NULL: not said */
    int test;                 /* as above; OTHER: one that Tutti has no collective for */
    uint32_t device_rank_max; /* highest rank listed + 1 */
    uint32_t info_rank_count; /* "nranks N" of NCCL INFO lines, the largest */
    uint32_t iteration_count; /* timed in a row; 0: not said */
    double average_busbw_GBps;
    size_t place_first; /* of this run's devices in the reader's list */
    size_t place_count;
};

enum tutti_log_fact {
    LOG_FACT_NONE,
    LOG_FACT_RUN,     /* the first lines of a run: version, starting, nThread, device list */
    LOG_FACT_TEST,    /* the name of a test: *ret_test */
    LOG_FACT_END,     /* the name of the test that just ended: *ret_test */
    LOG_FACT_VERSION, /* the library's version */
    LOG_FACT_AVERAGE, /* the average bus bandwidth */
    LOG_FACT_RANKS,   /* a rank count from the library */
    LOG_FACT_NETWORK, /* what joins the hosts, by the library */
};

/* What kind of fact the cleaned line states, if any. */
enum tutti_log_fact tutti_log_fact_kind(const char *text, int *ret_test);

/* Where a device is driven from, as hashes; 0: not said. */
struct tutti_log_place {
    uint64_t host;
    uint64_t process; /* of its host and number */
};

/* Writes the fact of the line into `facts`, and where the device is that it lists, if it does. */
void tutti_log_fact_read(const char *text, struct tutti_log_facts *facts,
                         struct tutti_log_place *ret_place);

/* The collective from a row alone, where type of row and figures leave no choice; else
 * LOG_TEST_UNKNOWN. */
int tutti_log_guess_test(const struct tutti_nccl_row *rows, size_t row_count);

/* The rank counts that the busbw/algbw ratios of all rows allow; false if they say nothing. */
bool tutti_log_guess_ranks(enum tutti_collective collective, const struct tutti_nccl_row *rows,
                           size_t row_count, uint32_t *ret_least, uint32_t *ret_most);

#endif
