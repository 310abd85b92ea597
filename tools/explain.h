/* What `tutti explain` found out, and how it is put into words. */
#ifndef TUTTI_TOOLS_EXPLAIN_H
#define TUTTI_TOOLS_EXPLAIN_H

#include <stdint.h>
#include <stdio.h>

#include "sim/nccl.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/sizes.h"
#include "topo/topo.h"

enum { TUTTI_WORDS_BYTES = 1024 };

struct tutti_explained { /* one size */
    uint64_t count;
    uint64_t bytes; /* nccl-tests' size column */
    struct tutti_nccl_choice choice;
    int runner_up; /* algorithm * TUTTI_NCCL_PROTOCOL_COUNT + protocol; -1: none */
};

struct tutti_explanation {
    struct tutti_topo *topo;
    struct tutti_nccl_comm *comm;
    struct tutti_nccl_options nccl;
    enum tutti_collective collective;
    enum tutti_dtype dtype;
    enum tutti_op op;
    struct tutti_sizes sizes;
    struct tutti_explained *sizes_explained; /* [sizes.count] */
};

const char *tutti_graph_name(enum tutti_nccl_graph_id graph); /* "ring", "nvls", ... */

/* "Ring with LL128"; `index` as in runner_up. */
const char *tutti_pick_words(int index, char *buf, size_t buf_bytes);

/* Why the search of a graph came to nothing and fell back to one slow channel; "" where it did not.
 * `buf` has TUTTI_WORDS_BYTES, in the next too. */
const char *tutti_collapse_words(const struct tutti_explanation *e, enum tutti_nccl_graph_id graph,
                                 char *buf);

/* Why the choice is what it is at this size. */
const char *tutti_choice_words(const struct tutti_explanation *e, const struct tutti_explained *at,
                               char *buf);

/* All that people read: the lines of '#' on machine and graphs, and, for a single size, the choice
 * line by line. */
void tutti_explain_head(const struct tutti_explanation *e, FILE *out);
void tutti_explain_size(const struct tutti_explanation *e, const struct tutti_explained *at,
                        FILE *out);

#endif
