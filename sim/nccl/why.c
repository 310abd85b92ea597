/* What a search found and why not more, in words. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "sim/nccl.h"

/* Text that grows until it is full. */
struct text {
    char *at;
    size_t left;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0 || text->left == 0)
        return;
    if ((size_t)length >= text->left)
        length = (int)text->left - 1;
    text->at += length;
    text->left -= (size_t)length;
}

static const char *path(uint8_t type)
{
    return tutti_nccl_path_name((enum tutti_nccl_path_type)type);
}

/* The whole of a log. */
struct sum {
    double first_GBps, last_GBps;                              /* of the first pass */
    uint8_t refused_intra, refused_to_port, refused_from_port; /* where most was allowed */
    uint32_t reached;                                          /* channels at once */
    bool rate_lacked;
    bool gave_up;
};

static void nearest(uint8_t *type, uint8_t other)
{
    if (other < *type)
        *type = other;
}

/* Refusals count where ports might be as far as they ever may: what was refused there never was
 * allowed. */
static struct sum sum_of(const struct tutti_nccl_try *tries, size_t count, uint8_t type_max)
{
    struct sum sum = {.refused_intra = TUTTI_PATH_DIS,
                      .refused_to_port = TUTTI_PATH_DIS,
                      .refused_from_port = TUTTI_PATH_DIS};

    for (size_t i = 0; i < count && tries[i].pass == 1; i++) {
        if (i == 0)
            sum.first_GBps = tries[i].bw_intra_GBps;
        sum.last_GBps = tries[i].bw_intra_GBps;
        sum.gave_up = sum.gave_up || tries[i].gave_up;
        sum.rate_lacked = sum.rate_lacked || tries[i].rate_lacked;
        if (tries[i].channels_reached > sum.reached)
            sum.reached = tries[i].channels_reached;
        if (tries[i].type_inter < type_max)
            continue;
        nearest(&sum.refused_to_port, tries[i].refused_to_port);
        nearest(&sum.refused_from_port, tries[i].refused_from_port);
        if (tries[i].type_intra >= type_max)
            nearest(&sum.refused_intra, tries[i].refused_intra);
    }
    return sum;
}

static void say_collapse(struct text *text, const struct sum *sum, size_t count, uint8_t type_max)
{
    say(text,
        "collapsed to 1 channel of 0.1 GB/s in the order of ranks: %zu attempts from %g down "
        "to %g GB/s ",
        count, sum->first_GBps, sum->last_GBps);
    if (sum->reached == 0)
        say(text, "found no channel");
    else
        say(text, "found %u at most, fewer than needed", sum->reached);
    if (sum->refused_from_port != TUTTI_PATH_DIS)
        say(text,
            "; a way from a port to a GPU is %s, and none beyond %s, the farthest from a GPU "
            "to a port, is ever allowed",
            path(sum->refused_from_port), path(type_max));
    else if (sum->refused_to_port != TUTTI_PATH_DIS)
        say(text, "; a way to a port is %s, beyond %s", path(sum->refused_to_port), path(type_max));
    else if (sum->refused_intra != TUTTI_PATH_DIS)
        say(text, "; a way between GPUs is %s, beyond %s", path(sum->refused_intra),
            path(type_max));
    else if (sum->rate_lacked)
        say(text, "; links have too little left");
    if (sum->gave_up)
        say(text, "; some attempts ran out of steps");
}

/* What was given up for it, compared with the first attempt. */
static void say_relaxed(struct text *text, const struct tutti_nccl_graph *graph,
                        const struct tutti_nccl_try *first)
{
    if (graph->pattern != first->pattern)
        say(text, "; a plain tree, both ways by one GPU, where a balanced one is not to be had");
    if (graph->type_intra > first->type_intra)
        say(text, "; %s within the node is not enough", path(first->type_intra));
    if (graph->nets != NULL && graph->type_inter > first->type_inter)
        say(text, "; %s to ports is not enough", path(first->type_inter));
    if (graph->cross_nic == 2)
        say(text, "; in pairs that enter and leave by each other's port");
    if (first->same_channels && !graph->same_channels)
        say(text, "; of different orders or ports");
}

void tutti_nccl_explain(const struct tutti_nccl_comm *comm, enum tutti_nccl_graph_id graph_id,
                        char *ret, size_t bytes)
{
    const struct tutti_nccl_graph *graph = &comm->graphs[graph_id];
    const struct tutti_nccl_try *tries;
    enum tutti_nccl_path_type type_max;
    size_t count = tutti_nccl_tries(comm, graph_id, &tries, &type_max);
    struct sum sum = sum_of(tries, count, (uint8_t)type_max);
    struct text text = {.at = ret, .left = bytes};

    assert(bytes > 0);
    ret[0] = '\0';
    if (graph->collapsed) {
        say_collapse(&text, &sum, count, (uint8_t)type_max);
        return;
    }
    if (graph->channels_found == 0) {
        say(&text, count == 0 ? "not searched for" : "not found in %zu attempts", count);
        return;
    }
    say(&text, "%u %s of %g GB/s (%s)", graph->channels_found,
        graph->channels_found == 1 ? "channel" : "channels", graph->bw_intra_GBps,
        path(graph->type_intra));
    if (graph->nets != NULL)
        say(&text, ", to ports %g GB/s (%s)", graph->bw_inter_GBps, path(graph->type_inter));
    say(&text, "; %zu %s from %g GB/s on", count, count == 1 ? "attempt" : "attempts",
        sum.first_GBps);
    say_relaxed(&text, graph, &tries[0]);
    if (graph->channel_count < graph->channels_found)
        say(&text, "; %u of them used, as ring and tree share the lesser number",
            graph->channel_count);
}
