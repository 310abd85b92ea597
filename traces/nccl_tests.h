/* Reader of nccl-tests (and rccl-tests) text output: the tables that real clusters print. */
#ifndef TUTTI_TRACES_NCCL_TESTS_H
#define TUTTI_TRACES_NCCL_TESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"

TUTTI_API_BEGIN

struct tutti_err;

/* One row; NAN where a column is absent or "N/A". Times in us and bandwidths in GB/s as printed. */
struct tutti_nccl_side {
    double time_us;
    double algbw_GBps;
    double busbw_GBps;
    double wrong; /* #wrong */
};

struct tutti_nccl_row {
    uint64_t bytes; /* size column */
    uint64_t count;
    char type[16];
    char redop[16];
    int root;
    struct tutti_nccl_side out_of_place;
    struct tutti_nccl_side in_place;
    uint32_t line; /* in the file, from 1 */
};

/* It times so many of a size in a row, and prints the mean, unless its option -n says otherwise. */
enum { TUTTI_NCCL_TESTS_ITERATIONS = 20 };

/* What one log says. A log may hold several tables; each becomes one of these. Unknown facts: "" or
 * 0. */
struct tutti_nccl_table {
    char version[64]; /* nccl-tests version, as printed */
    char library[64]; /* NCCL library version, as printed or found in NCCL INFO lines */
    bool has_collective;
    enum tutti_collective collective; /* from the header, the "Collective test starting" line, or
                                         the program name; else from redop and root, best effort */
    uint32_t rank_count; /* devices listed or "nranks" of NCCL INFO lines, if the ratio of busbw to
                            algbw allows it; else what that ratio proves; 0 unknown */
    uint32_t host_count; /* distinct host names among the devices, if all are listed; 0 unknown */
    uint32_t process_count;    /* distinct processes likewise */
    uint32_t iteration_count;  /* timed in a row, by the nThread line; 0 unknown */
    char device[96];           /* first device's name, "NVIDIA H100 80GB HBM3" */
    bool uneven;               /* not all have that name, or hosts list different numbers of them */
    const char *network;       /* what joins the hosts, by NCCL INFO lines, as a word of net= of a
                                  SPEC: ib, roce, efa, slingshot, tcp, tcpx; NULL
                                  unknown */
    double average_busbw_GBps; /* as printed; NAN if absent */
    size_t row_count;
    struct tutti_nccl_row *rows;
};

struct tutti_nccl_log {
    size_t table_count;
    struct tutti_nccl_table *tables;
    struct tutti_arena *arena; /* owns everything */
};

/* Reads a log from memory: tolerates prefixes before the columns ("0: ", "rank0: ",
 * "[1,0]<stdout>:"), lines of other programs in between, CRLF, missing headers, one or two sides.
 * -TUTTI_EINVAL if there is no table in it, with what was looked for; `name` is used in messages.
 */
int tutti_nccl_tests_parse(const char *name, const char *text, size_t bytes,
                           struct tutti_nccl_log *ret, struct tutti_err *err);
void tutti_nccl_log_free(struct tutti_nccl_log *log);

TUTTI_API_END

#endif
