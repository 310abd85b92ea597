/* Tables of real measurements: what traces/measured/ holds, read, and chosen from by a filter.
 *
 *     tutti measured 1                  the first line; then lines, '#' begins a remark
 *     table ID                          opens a table
 *     KEY VALUE                         a fact of it: a word, a blank, the rest of the line
 *     rows                              then a line a size: bytes, us out of place, us in place
 *     8 20.09 17.42                     ("-" or nothing: not measured)
 *     end
 *
 * The keys are the names of the fields below; needed are site, platform, machine, ranks, nodes,
 * gpus, library, collective, dtype, op, quality and source. Sizes are nccl-tests' size column,
 * rising. The files are written by traces/measured/convert.py. */
#ifndef TUTTI_TRACES_MEASURED_H
#define TUTTI_TRACES_MEASURED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

struct tutti_measured_row {
    uint64_t bytes; /* nccl-tests' size column */
    double out_us;  /* out of place; NAN: not measured, as in_us, but not both */
    double in_us;   /* in place */
};

/* Texts are "" where nothing is known, counts 0. */
struct tutti_measured_table {
    const char *id;
    const char *site;     /* who measured: what leave-one-site-out leaves out */
    const char *platform; /* the kind of host: what leave-one-platform-out leaves out */
    const char *group;    /* key "class": the generation of its accelerator */
    const char *machine;  /* a SPEC (topo.h), "-": none can be said */
    const char *nic;      /* rate of a NIC as a text, "200Gb/s" */
    const char *net;      /* ib, roce, efa, slingshot, tcp, tcpx, tcpxo */
    const char *basis;    /* how the NICs are known: stated (by the source), standard (documented
                             for the platform), inferred (from the rate that was measured),
                             assumed (the platform's, or a usual setting, though that rate
                             speaks against it) */
    const char *library;  /* nccl, rccl, mscclpp, ncclx, mpi, ... */
    const char *version;  /* as stated, else the latest that it can have been: see the note */
    const char *env;      /* "NCCL_ALGO=Ring NCCL_PROTO=Simple" */
    const char *settings; /* what else the source says of the run */
    const char *ran;      /* what the library said it ran: "ring/ll@0-1M,nvls/simple@2M-" */
    const char *launch;   /* one (process for all GPUs of a host, or threads of it), each (a GPU) */
    const char *timing;   /* host (the usual loop), graph (CUDA graph), kernel (profiler), torch */
    uint32_t iteration_count; /* key "iterations": timed in a row, of which times are the mean; 0:
                                 nccl-tests' standard, 20 */
    const char *quality; /* good, degraded: reported because something was wrong, or implausible */
    const char *caveat;  /* of the collection */
    const char *note;    /* of the mapping to a machine */
    const char *source;
    bool degraded; /* what `quality` says */
    enum tutti_collective collective;
    enum tutti_dtype dtype; /* one of the same size where Tutti has no such type */
    enum tutti_op op;       /* "none": sum */
    uint32_t rank_count;    /* key "ranks" */
    uint32_t host_count;    /* "nodes" */
    uint32_t gpu_count;     /* "gpus": used of a host; ranks / nodes */
    uint32_t nic_count;     /* "nics": of a host; 0 where the network is not used */
    uint64_t nic_bytes_per_s;
    size_t row_count; /* at least 1 */
    const struct tutti_measured_row *rows;
};

/* All zero is an empty set. Pointers into it hold until the next parse or the free. */
struct tutti_measured {
    size_t table_count;
    size_t table_capacity;
    struct tutti_measured_table *tables; /* in the order read */
    struct tutti_arena *arena;           /* owns texts and rows */
};

/* Adds the tables of a text to the set; `name` is used in messages. -TUTTI_EINVAL with the line:
 * an unknown, doubled or missing key, a number that is none, sizes that do not rise, an id that the
 * set has already. On failure the set is as before. */
int tutti_measured_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_measured *set, struct tutti_err *err);
void tutti_measured_free(struct tutti_measured *set);

/* A filter: "key=pattern,key=pattern,...", all of which must hold. Keys are those of the files;
 * a pattern of a text may have '*' and '?' and several alternatives ("library=nccl|rccl"), that of
 * ranks, nodes, gpus, nics is a number or a range ("2..8", "16.."); "key!=pattern" turns it round.
 * An empty text or NULL chooses all. */
enum { TUTTI_MEASURED_TERMS_MAX = 16 };

struct tutti_measured_term {
    uint8_t key; /* private */
    bool negated;
    uint64_t min, max; /* of a number */
    char pattern[128]; /* of a text */
};

struct tutti_measured_filter {
    uint32_t term_count;
    struct tutti_measured_term terms[TUTTI_MEASURED_TERMS_MAX];
};

/* -TUTTI_EINVAL for an unknown key (with those there are), a pattern that is too long or no range,
 * or more than TUTTI_MEASURED_TERMS_MAX terms. */
int tutti_measured_filter_parse(const char *text, struct tutti_measured_filter *ret,
                                struct tutti_err *err);
bool tutti_measured_matches(const struct tutti_measured_filter *filter,
                            const struct tutti_measured_table *table);

TUTTI_API_END

#endif
