/* What NCCL chooses, and why, in words; see explain.h. */
#include <inttypes.h>
#include <string.h>

#include "build.h"
#include "tools/cli/output.h"
#include "tools/explain.h"

const char *tutti_graph_name(enum tutti_nccl_graph_id graph)
{
    static const char *const names[TUTTI_GRAPH_COUNT] = {
        [TUTTI_GRAPH_RING] = "ring",
        [TUTTI_GRAPH_TREE] = "tree",
        [TUTTI_GRAPH_COLLNET_CHAIN] = "collnet-chain",
        [TUTTI_GRAPH_NVLS] = "nvls",
        [TUTTI_GRAPH_COLLNET_DIRECT] = "collnet-direct",
    };

    return names[graph];
}

static const char *algorithm_of(int index)
{
    return tutti_nccl_algorithm_name(
        (enum tutti_nccl_algorithm)(index / TUTTI_NCCL_PROTOCOL_COUNT));
}

static const char *protocol_of(int index)
{
    return tutti_nccl_protocol_name((enum tutti_nccl_protocol)(index % TUTTI_NCCL_PROTOCOL_COUNT));
}

const char *tutti_pick_words(int index, char *buf, size_t buf_bytes)
{
    (void)snprintf(buf, buf_bytes, "%s with %s", algorithm_of(index), protocol_of(index));
    return buf;
}

/* ---- why a search found nothing ------------------------------------------------------------ */

/* What the attempts of a search met, taken together. */
struct obstacles {
    size_t try_count;
    double fastest_GBps, slowest_GBps;
    uint8_t refused_intra, refused_to_port, refused_from_port; /* the nearest; DIS: none */
    uint8_t allowed_inter;                                     /* the farthest */
    bool rate_lacked;
};

static void note_nearest(uint8_t *nearest, uint8_t refused)
{
    if (refused < *nearest)
        *nearest = refused;
}

static struct obstacles find_obstacles(const struct tutti_nccl_try *tries, size_t count)
{
    struct obstacles met = {.try_count = count,
                            .refused_intra = TUTTI_PATH_DIS,
                            .refused_to_port = TUTTI_PATH_DIS,
                            .refused_from_port = TUTTI_PATH_DIS};

    for (size_t i = 0; i < count; i++) {
        if (i == 0 || tries[i].bw_intra_GBps > met.fastest_GBps)
            met.fastest_GBps = tries[i].bw_intra_GBps;
        if (i == 0 || tries[i].bw_intra_GBps < met.slowest_GBps)
            met.slowest_GBps = tries[i].bw_intra_GBps;
        met.rate_lacked = met.rate_lacked || tries[i].rate_lacked;
        /* What the widest attempts refuse is refused for good. */
        if (tries[i].type_inter < met.allowed_inter)
            continue;
        if (tries[i].type_inter > met.allowed_inter) {
            met.allowed_inter = tries[i].type_inter;
            met.refused_intra = met.refused_to_port = met.refused_from_port = TUTTI_PATH_DIS;
        }
        note_nearest(&met.refused_intra, tries[i].refused_intra);
        note_nearest(&met.refused_to_port, tries[i].refused_to_port);
        note_nearest(&met.refused_from_port, tries[i].refused_from_port);
    }
    return met;
}

static const char *path(uint8_t type)
{
    return tutti_nccl_path_name((enum tutti_nccl_path_type)type);
}

/* The way that was too far, and why no farther one is admitted. */
static int obstacle_words(const struct obstacles *met, uint8_t port_type, char *buf, size_t bytes)
{
    if (met->refused_from_port != TUTTI_PATH_DIS)
        return snprintf(buf, bytes,
                        "each needs a port to reach a GPU by %s, and no way between ports and GPUs "
                        "is admitted that is farther than %s, the farthest from a GPU to a port",
                        path(met->refused_from_port), path(port_type));
    if (met->refused_to_port != TUTTI_PATH_DIS)
        return snprintf(buf, bytes, "each needs a GPU to reach a port by %s, and %s is admitted",
                        path(met->refused_to_port), path(met->allowed_inter));
    if (met->refused_intra != TUTTI_PATH_DIS)
        return snprintf(buf, bytes, "each needs GPUs to reach each other by %s",
                        path(met->refused_intra));
    return snprintf(buf, bytes, "%s",
                    met->rate_lacked ? "the links have not that much left" : "none closes");
}

const char *tutti_collapse_words(const struct tutti_explanation *e, enum tutti_nccl_graph_id graph,
                                 char *buf)
{
    const struct tutti_nccl_graph *found = &e->comm->graphs[graph];
    const struct tutti_nccl_try *tries = NULL;
    enum tutti_nccl_path_type port_type = TUTTI_PATH_DIS;
    size_t count = tutti_nccl_tries(e->comm, graph, &tries, &port_type);
    struct obstacles met = find_obstacles(tries, count);
    char why[512];

    buf[0] = '\0';
    if (!found->collapsed)
        return buf;
    (void)obstacle_words(&met, (uint8_t)port_type, why, sizeof(why));
    (void)snprintf(buf, TUTTI_WORDS_BYTES,
                   "none of %zu attempts at %g to %g GB/s found enough %s channels: %s; NCCL takes "
                   "the ranks in order, 1 channel of 0.1 GB/s",
                   met.try_count, met.fastest_GBps, met.slowest_GBps, tutti_graph_name(graph), why);
    return buf;
}

/* ---- the head ------------------------------------------------------------------------------ */

static void print_graph(const struct tutti_explanation *e, enum tutti_nccl_graph_id id, FILE *out)
{
    const struct tutti_nccl_graph *graph = &e->comm->graphs[id];
    char why[TUTTI_WORDS_BYTES];

    if (graph->channels_found == 0)
        return;
    fprintf(out, "# graph:    %s: %u channel%s of %g GB/s", tutti_graph_name(id),
            graph->channels_found, graph->channels_found == 1 ? "" : "s", graph->bw_intra_GBps);
    if (e->comm->node_count > 1)
        fprintf(out, " inside nodes and %g between", graph->bw_inter_GBps);
    if (id == TUTTI_GRAPH_TREE)
        fprintf(out, ", %s", tutti_nccl_pattern_name((enum tutti_nccl_pattern)graph->pattern));
    fprintf(out, ", GPUs by %s", path(graph->type_intra));
    if (e->comm->node_count > 1)
        fprintf(out, ", ports by %s%s", path(graph->type_inter),
                graph->cross_nic != 0 ? ", crossing ports" : "");
    fprintf(out, "%s\n", graph->same_channels && graph->channels_found > 1 ? ", all alike" : "");
    if (graph->collapsed)
        fprintf(out, "# collapse: %s\n", tutti_collapse_words(e, id, why));
}

static void print_channels(const struct tutti_explanation *e, FILE *out)
{
    const struct tutti_nccl_graph *ring = &e->comm->graphs[TUTTI_GRAPH_RING];
    const struct tutti_nccl_graph *tree = &e->comm->graphs[TUTTI_GRAPH_TREE];
    uint32_t lesser = ring->channel_count;

    fprintf(out, "# channels: %u", e->comm->channel_count);
    if (e->comm->channel_count == 2 * lesser && ring->channels_found == tree->channels_found)
        fprintf(out, ", each graph's %u twice", lesser);
    else if (e->comm->channel_count == 2 * lesser)
        fprintf(out, ", twice the lesser of the ring's %u and the tree's %u", ring->channels_found,
                tree->channels_found);
    else
        fprintf(out, ", from %u of the graphs", lesser);
    if (tree->collapsed && !ring->collapsed && ring->channels_found > lesser)
        fprintf(out, "; without the collapse %u", 2 * ring->channels_found);
    if (e->comm->nvls_channel_count > 0)
        fprintf(out, "; %u of NVLS", e->comm->nvls_channel_count);
    fprintf(out, "\n");
}

void tutti_explain_head(const struct tutti_explanation *e, FILE *out)
{
    const char *name = tutti_nccl_version_name(e->nccl.version);
    const char *note = tutti_nccl_version_note(e->nccl.version);
    const char *asked = e->nccl.asked;
    char plugin[TUTTI_WORDS_BYTES];
    bool rccl = tutti_nccl_is_rccl(e->comm); /* of one version, whatever was asked for */

    fprintf(out, "# tutti %s explain: %s of %s, %s, as %s%s decides\n", TUTTI_BUILD_VERSION,
            tutti_collective_name(e->collective), tutti_dtype_name(e->dtype), tutti_op_name(e->op),
            rccl ? TUTTI_RCCL_WORDS : "NCCL ", rccl ? "" : name);
    if (!rccl && asked != NULL && strchr(asked, '.') != NULL &&
        strncmp(name, asked, strlen(asked)) != 0)
        fprintf(out, "# version:  %s itself is not known; this is the nearest before it\n", asked);
    if (note != NULL && !rccl)
        fprintf(out, "# version:  %s\n", note);
    fprintf(out, "# machine:  %s: %" PRIu32 " ranks on %" PRIu32 " host%s, to NCCL %u node%s\n",
            e->topo->name, e->comm->rank_count, e->topo->host_count,
            e->topo->host_count == 1 ? "" : "s", e->comm->node_count,
            e->comm->node_count == 1 ? "" : "s");
    if (e->nccl.text != NULL)
        fprintf(out, "# set:      %s\n", e->nccl.text);
    if (tutti_nccl_plugin_words(e->comm, plugin, sizeof(plugin)) > 0)
        fprintf(out, "# plugin:   %s\n", plugin);
    for (int id = 0; id < TUTTI_GRAPH_COUNT; id++)
        print_graph(e, (enum tutti_nccl_graph_id)id, out);
    print_channels(e, out);
}

/* ---- a choice ------------------------------------------------------------------------------ */

static int index_of(const struct tutti_nccl_choice *choice)
{
    return choice->algorithm * TUTTI_NCCL_PROTOCOL_COUNT + choice->protocol;
}

static double time_of(const struct tutti_nccl_choice *choice, int index)
{
    return choice->times_us[index / TUTTI_NCCL_PROTOCOL_COUNT][index % TUTTI_NCCL_PROTOCOL_COUNT];
}

static struct tutti_nccl_estimate row_of(const struct tutti_nccl_choice *choice, int index)
{
    return choice->rows[index / TUTTI_NCCL_PROTOCOL_COUNT][index % TUTTI_NCCL_PROTOCOL_COUNT];
}

/* The size at which two rows take the same time, to three digits: "2.66 MiB". */
static const char *meeting_words(struct tutti_nccl_estimate quick, struct tutti_nccl_estimate broad,
                                 char *buf, size_t buf_bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double us_per_byte = 1e-3 / quick.algbw_GBps - 1e-3 / broad.algbw_GBps;
    double bytes = (broad.latency_us - quick.latency_us) / us_per_byte;
    size_t unit = 0;

    while (bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(buf, buf_bytes, "%.3g %s", bytes, units[unit]);
    return buf;
}

/* Where there is nothing to compare with. */
static const char *lone_words(const struct tutti_explanation *e, const struct tutti_explained *at)
{
    if (e->comm->rank_count == 1)
        return "one rank alone copies";
    return at->choice.time_us > 0 ? "nothing else may run"
                                  : "messages are not in the tables: it goes by their sizes";
}

const char *tutti_choice_words(const struct tutti_explanation *e, const struct tutti_explained *at,
                               char *buf)
{
    struct tutti_nccl_estimate won = row_of(&at->choice, index_of(&at->choice));
    struct tutti_nccl_estimate next;
    char name[64];
    char size[64];

    if (at->choice.time_us <= 0 || at->runner_up < 0) {
        (void)snprintf(buf, TUTTI_WORDS_BYTES, "%s", lone_words(e, at));
        return buf;
    }
    next = row_of(&at->choice, at->runner_up);
    tutti_pick_words(at->runner_up, name, sizeof(name));
    if (at->choice.tuned) {
        (void)snprintf(buf, TUTTI_WORDS_BYTES,
                       "the tuner of the network's plugin has it for this size and %" PRIu32
                       " ranks; by NCCL's own estimate %s takes %s",
                       e->comm->rank_count, name,
                       time_of(&at->choice, at->runner_up) < at->choice.time_us ? "less" : "more");
        return buf;
    }
    if (time_of(&at->choice, at->runner_up) < at->choice.time_us) /* times did not decide: RCCL */
        (void)snprintf(buf, TUTTI_WORDS_BYTES,
                       "RCCL's tuning table has %s for this size, though by its own estimate %s "
                       "takes less",
                       tutti_nccl_protocol_name((enum tutti_nccl_protocol)at->choice.protocol),
                       name);
    else if (won.latency_us <= next.latency_us && won.algbw_GBps >= next.algbw_GBps)
        (void)snprintf(
            buf, TUTTI_WORDS_BYTES,
            "%s begins no sooner (%.1f against %.1f us) and goes no faster (%.3g against "
            "%.3g GB/s)",
            name, next.latency_us, won.latency_us, next.algbw_GBps, won.algbw_GBps);
    else if (won.latency_us < next.latency_us)
        (void)snprintf(buf, TUTTI_WORDS_BYTES,
                       "it begins sooner than %s (%.1f against %.1f us), which goes faster (%.3g "
                       "against %.3g GB/s) and gains by that from about %s on",
                       name, won.latency_us, next.latency_us, next.algbw_GBps, won.algbw_GBps,
                       meeting_words(won, next, size, sizeof(size)));
    else
        (void)snprintf(buf, TUTTI_WORDS_BYTES,
                       "it goes faster than %s (%.3g against %.3g GB/s), which begins sooner (%.1f "
                       "against %.1f us) and gains by that up to about %s",
                       name, won.algbw_GBps, next.algbw_GBps, next.latency_us, won.latency_us,
                       meeting_words(next, won, size, sizeof(size)));
    return buf;
}

static void print_line(FILE *out, const char *label, const char *text)
{
    fprintf(out, "  %-11s %s\n", label, text);
}

static void print_times(const struct tutti_explained *at, FILE *out)
{
    const struct tutti_nccl_choice *choice = &at->choice;
    struct tutti_nccl_estimate row = row_of(choice, index_of(choice));
    char size[TUTTI_UNIT_TEXT_BYTES];
    char name[64];

    if (choice->time_us > 0)
        fprintf(out, "  %-11s %.2f us by NCCL's own estimate: %.2f us and %s at %.2f GB/s\n",
                "takes", choice->time_us, row.latency_us, tutti_print_size(at->bytes, size),
                row.algbw_GBps);
    if (at->runner_up >= 0)
        fprintf(out, "  %-11s %s: %.2f us, %.2f times as long\n", "runner-up",
                tutti_pick_words(at->runner_up, name, sizeof(name)), time_of(choice, at->runner_up),
                time_of(choice, at->runner_up) / choice->time_us);
}

static void print_symmetric(const struct tutti_explanation *e, const struct tutti_explained *at,
                            FILE *out)
{
    struct tutti_nccl_symmetric symmetric;

    if (tutti_nccl_symmetric(e->comm, e->collective, e->dtype, e->op, at->bytes, &symmetric, NULL) <
        0)
        return;
    fprintf(out,
            "  %-11s in symmetric windows instead: %s on %u block%s, %.2f us by its own model\n",
            "buffers", symmetric.kernel, symmetric.block_count,
            symmetric.block_count == 1 ? "" : "s", symmetric.time_us);
}

/* "576000 B", "32KiB" */
static void print_bytes(FILE *out, uint64_t bytes)
{
    char text[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "%s%s", tutti_print_size(bytes, text), bytes % 1024 != 0 ? " B" : "");
}

static void print_cut(const struct tutti_explanation *e, const struct tutti_explained *at,
                      FILE *out)
{
    const struct tutti_nccl_choice *choice = &at->choice;
    bool message = e->collective == TUTTI_ALLTOALL || e->collective == TUTTI_SENDRECV;

    fprintf(out, "  %-11s %u of %u%s: %" PRIu64, "channels", choice->channel_count,
            choice->channels_allowed, message ? " for each message" : "", choice->count_lo);
    if (choice->channel_count > 2)
        fprintf(out, ", %u times %" PRIu64, choice->channel_count - 2, choice->count_mid);
    if (choice->channel_count > 1)
        fprintf(out, " and %" PRIu64, choice->count_hi);
    fprintf(out, " elements%s\n",
            e->collective == TUTTI_ALLGATHER || e->collective == TUTTI_REDUCESCATTER
                ? " of each block"
                : "");
    fprintf(out, "  %-11s %u a channel\n", "threads", 32 * choice->warp_count);
    fprintf(out, "  %-11s ", "chunks");
    print_bytes(out, choice->chunk_bytes);
    if (choice->slice_count > 1) {
        fprintf(out, " in %u slices of ", choice->slice_count);
        print_bytes(out, choice->chunk_bytes / choice->slice_count);
    }
    fprintf(out, "\n");
}

/* What else could run, slower still, and what could not, those with one reason together. */
static void print_others(const struct tutti_explained *at, FILE *out)
{
    const struct tutti_nccl_choice *choice = &at->choice;
    int chosen = index_of(choice);
    const char *label = "others";
    bool said[TUTTI_NCCL_ALGORITHM_COUNT * TUTTI_NCCL_PROTOCOL_COUNT] = {false};
    const char *const *missing = &choice->missing[0][0];
    int count = TUTTI_NCCL_ALGORITHM_COUNT * TUTTI_NCCL_PROTOCOL_COUNT;

    for (int i = 0; i < count; i++) {
        if (missing[i] != NULL || i == chosen || i == at->runner_up)
            continue;
        fprintf(out, "  %-11s %s with %s: %.2f us\n", label, algorithm_of(i), protocol_of(i),
                time_of(choice, i));
        label = "";
    }
    label = "not";
    for (int i = 0; i < count; i++) {
        if (missing[i] == NULL || said[i])
            continue;
        fprintf(out, "  %-11s %s", label, missing[i]);
        for (int k = i; k < count; k++) {
            if (missing[k] == NULL || strcmp(missing[k], missing[i]) != 0)
                continue;
            fprintf(out, "%s%s/%s", k == i ? ": " : " ", algorithm_of(k), protocol_of(k));
            said[k] = true;
        }
        fprintf(out, "\n");
        label = "";
    }
}

void tutti_explain_size(const struct tutti_explanation *e, const struct tutti_explained *at,
                        FILE *out)
{
    bool message = e->collective == TUTTI_ALLTOALL || e->collective == TUTTI_SENDRECV;
    char words[TUTTI_WORDS_BYTES];
    char name[64];
    char size[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "%s: %s\n", tutti_print_size(at->bytes, size),
            message ? protocol_of(index_of(&at->choice))
                    : tutti_pick_words(index_of(&at->choice), name, sizeof(name)));
    print_line(out, "why", tutti_choice_words(e, at, words));
    print_times(at, out);
    print_cut(e, at, out);
    print_symmetric(e, at, out);
    if (!message && e->comm->rank_count > 1)
        print_others(at, out);
}
