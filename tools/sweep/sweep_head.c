/* Echoes what was resolved: the machine, what was asked for, and what was left out. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "build.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/sweep/sweep.h"

enum { LINK_GROUPS_MAX = 8, SEED_STANDARD = 42 };

/* Links alike in kind, rate, latency and burst. */
struct link_group {
    struct tutti_link link; /* the first of them */
    uint32_t link_count;
};

/* The groups in order of their first links; what is beyond LINK_GROUPS_MAX is counted in *more. */
static uint32_t group_links(const struct tutti_topo *topo, struct link_group *groups,
                            uint32_t *more)
{
    struct tutti_link_class classes[TUTTI_LINK_CLASSES_MAX];
    uint32_t class_count = tutti_topo_link_classes(topo, classes, TUTTI_LINK_CLASSES_MAX, more);
    uint32_t count = 0;

    for (uint32_t i = 0; i < class_count; i++) {
        struct tutti_link link = tutti_topo_link(topo, classes[i].first);
        uint32_t g = 0;

        while (g < count && (groups[g].link.kind != link.kind ||
                             groups[g].link.bytes_per_s != link.bytes_per_s ||
                             groups[g].link.latency_ps != link.latency_ps ||
                             groups[g].link.burst_bytes != link.burst_bytes))
            g++;
        if (g == LINK_GROUPS_MAX) {
            *more += classes[i].count;
            continue;
        }
        if (g == count)
            groups[count++] = (struct link_group){.link = link};
        groups[g].link_count += classes[i].count;
    }
    return count;
}

static void print_links(const struct tutti_topo *topo, FILE *out)
{
    struct link_group groups[LINK_GROUPS_MAX];
    char rate[TUTTI_UNIT_TEXT_BYTES];
    char latency[TUTTI_UNIT_TEXT_BYTES];
    uint32_t more = 0;
    uint32_t count = group_links(topo, groups, &more);

    for (uint32_t g = 0; g < count; g++) {
        const struct tutti_link *link = &groups[g].link;

        fprintf(out, "%s %u %s of %s %s", g == 0 ? "# links:   " : ",", groups[g].link_count,
                tutti_link_kind_name((enum tutti_link_kind)link->kind),
                tutti_print_rate(link->bytes_per_s, rate),
                tutti_print_time(link->latency_ps, latency));
        if (link->burst_bytes > 0)
            fprintf(out, " burst %s", tutti_print_size(link->burst_bytes, rate));
    }
    if (more > 0)
        fprintf(out, ", %u others", more);
    if (count > 0)
        fprintf(out, " (one each way)\n");
}

/* Which axes of the grid do not close to a ring; two ranks are neighbours either way. */
static void print_open_axes(const struct tutti_shape *shape, FILE *out)
{
    const char *before = " (open: axis ";

    for (uint32_t i = 0; i < shape->dim_count; i++) {
        if (shape->dim[i] > 2 && !shape->wrap[i]) {
            fprintf(out, "%s%u", before, i);
            before = ", ";
        }
    }
    if (before[0] == ',')
        fputc(')', out);
}

void tutti_sweep_print_assumed(const char *source, FILE *out)
{
    enum { WORDS_BYTES_MAX = 40 };
    const char *clause = source;

    for (const char *next = source; next != NULL; clause = next + 2) {
        char words[WORDS_BYTES_MAX + 1];
        size_t bytes;

        next = strstr(clause, "; ");
        bytes = next != NULL ? (size_t)(next - clause) : strlen(clause);
        (void)snprintf(words, sizeof(words), "%.*s", (int)bytes, clause);
        if (bytes <= WORDS_BYTES_MAX && strstr(words, "assumed") != NULL)
            fprintf(out, "; %s", words);
        if (next == NULL)
            break;
    }
    if (strstr(source, "unverified") != NULL)
        fputs("; some figures unverified", out);
    else if (strstr(source, "round number") != NULL)
        fputs("; round numbers", out);
}

void tutti_sweep_print_machine(const struct tutti_topo *topo, const struct tutti_page *page)
{
    const struct tutti_shape *shape = &topo->shape;
    FILE *out = page->out;

    fprintf(out, "# machine:  %s: %u rank%s", topo->name, topo->rank_count,
            topo->rank_count == 1 ? "" : "s");
    if (topo->host_count > 0)
        fprintf(out, " on %u host%s", topo->host_count, topo->host_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < shape->level_count && shape->level_count > 1; i++)
        fprintf(out, "%s%u", i == 0 ? ", levels " : "x", shape->level[i]);
    for (uint32_t i = 0; i < shape->dim_count; i++)
        fprintf(out, "%s%u", i == 0 ? ", grid " : "x", shape->dim[i]);
    print_open_axes(shape, out);
    if (shape->order_count > 1)
        fprintf(out, ", %u rings", shape->order_count);
    if (!page->verbose)
        tutti_sweep_print_assumed(topo->source, out);
    fputc('\n', out);
    if (!page->verbose)
        return;
    print_links(topo, out);
    fprintf(out, "# figures:  %s\n", topo->source);
}

/* Whether RCCL decided, as it does on AMD's GPUs whatever was asked for. */
static bool is_rccl(const struct tutti_sweep *sweep)
{
    for (size_t i = 0; i < sweep->point_count; i++) {
        if (sweep->points[i].status == 0 &&
            strncmp(sweep->points[i].answer.algorithm, "rccl:", 5) == 0)
            return true;
    }
    return false;
}

/* Which NCCL decided, if it did. */
static void print_nccl(const struct tutti_sweep *sweep, bool verbose, FILE *out)
{
    const struct tutti_nccl_options *nccl = &sweep->nccl;
    const char *note = NULL;

    if (nccl->version == NULL)
        return;
    if (is_rccl(sweep)) {
        fprintf(out, "# nccl:     " TUTTI_RCCL_WORDS);
    } else {
        fprintf(out, "# nccl:     as %s decides", tutti_nccl_version_name(nccl->version));
        note = tutti_nccl_version_note(nccl->version);
    }
    if (note != NULL && verbose)
        fprintf(out, ": %s", note);
    if (nccl->text != NULL)
        fprintf(out, "; set: %s", nccl->text);
    fputc('\n', out);
}

/* What was asked for; and in few words the costs, where a line of their own does not tell. */
static void print_asked(const struct tutti_sweep *sweep, const struct tutti_page *page)
{
    FILE *out = page->out;
    const struct tutti_ask *ask = &sweep->ask;
    const struct tutti_coll_params *params = &ask->params;
    char text[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "# model:    %s, protocol %s", tutti_model_name(ask->model), ask->protocol);
    if (params->channel_count > 0)
        fprintf(out, ", channels %u", params->channel_count);
    if (params->chunk_bytes > 0)
        fprintf(out, ", chunk %s", tutti_print_size(params->chunk_bytes, text));
    if (params->slice_count > 1)
        fprintf(out, ", slices %u", params->slice_count);
    if (params->slot_count != TUTTI_SLOTS_DEFAULT)
        fprintf(out, ", slots %u", params->slot_count);
    if (ask->reduce_bytes_per_s > 0)
        fprintf(out, ", reduction %s", tutti_print_rate(ask->reduce_bytes_per_s, text));
    if (page->verbose || ask->jitter > 0 || ask->seed != SEED_STANDARD)
        fprintf(out, ", jitter %g, seed %" PRIu64, ask->jitter, ask->seed);
    if (!page->verbose && sweep->calib.is_told)
        fprintf(out, "; costs %.*s", (int)strcspn(sweep->calib.made.text, ";"),
                sweep->calib.made.text);
    fputc('\n', out);
}

void tutti_sweep_print_head(const struct tutti_sweep *sweep, const char *command,
                            const struct tutti_page *page)
{
    FILE *out = page->out;

    fprintf(out, "# tutti %s %s: ", TUTTI_BUILD_VERSION, command);
    tutti_shared_print_params(&sweep->ask.params, out);
    fputc('\n', out);
    tutti_sweep_print_machine(sweep->topo, page);
    if (page->verbose)
        tutti_calib_print_choice(&sweep->calib, out);
    tutti_perturb_print(&sweep->perturb, sweep->ask.seed, "# perturb:  ", out);
    print_nccl(sweep, page->verbose, out);
    tutti_own_print(&sweep->own, out);
    print_asked(sweep, page);
}

/* The first failure of algorithm `index`, or NULL: an algorithm may fit small sizes alone.
 * Where the fastest is wanted, those that could not be tried count, not those that do not fit. */
static const struct tutti_point *left_out(const struct tutti_sweep *sweep, uint32_t index,
                                          uint32_t *ret_count)
{
    const struct tutti_point *first = NULL;

    bool all = !sweep->best || (sweep->library && index == 0);

    *ret_count = 0;
    for (size_t i = index; i < sweep->point_count; i += sweep->algorithm_count) {
        if (sweep->points[i].status < 0 && (all || sweep->points[i].status == -TUTTI_ELACK ||
                                            sweep->points[i].status == -TUTTI_ETIME)) {
            first = first == NULL ? &sweep->points[i] : first;
            ++*ret_count;
        }
    }
    return first;
}

/* Why it was left out: what its generator says where it cannot be laid out at all, for predict's
 * message adds the algorithms that could. */
static const char *reason_of(const struct tutti_sweep *sweep, const struct tutti_point *point,
                             struct tutti_err *err)
{
    struct tutti_ask ask = sweep->ask;
    struct tutti_schedule *schedule = NULL;

    ask.algorithm = point->algorithm;
    ask.params.count = point->count;
    if (tutti_predict_schedule(&ask, &schedule, err) < 0)
        return err->text;
    tutti_schedule_free(schedule);
    return point->err.text;
}

/* The size asked for of a point. */
static uint64_t bytes_of(const struct tutti_sweep *sweep, const struct tutti_point *point)
{
    size_t index = (size_t)(point - sweep->points);

    return tutti_sizes_at(&sweep->sizes, (uint32_t)(index / sweep->algorithm_count));
}

void tutti_sweep_print_left_out(const struct tutti_sweep *sweep, FILE *out)
{
    struct tutti_err err;
    char size[TUTTI_UNIT_TEXT_BYTES];
    bool large = false;
    bool forced = false;
    bool over = false;

    for (size_t i = 0; i < sweep->point_count; i++)
        over = over || (sweep->points[i].status == 0 && sweep->points[i].answer.beats_bound);
    if (over && sweep->own.schedule != NULL && !sweep->own.proved)
        fprintf(out, "# over 100 %% of the bound: what is not proved need not move what it says\n");
    else if (over)
        fprintf(out,
                "# over 100 %% of the bound, so faster than the machine can be: model %s does not "
                "share links among messages (fair does)\n",
                tutti_model_name(sweep->ask.model));
    for (uint32_t i = 0; i < sweep->algorithm_count; i++) {
        uint32_t count = 0;
        const struct tutti_point *point = left_out(sweep, i, &count);

        if (point == NULL)
            continue;
        fprintf(out, "# left out: %s", point->algorithm);
        if (count < sweep->sizes.count)
            fprintf(out, " at %u of %u sizes, first at %s", count, sweep->sizes.count,
                    tutti_print_size(bytes_of(sweep, point), size));
        fprintf(out, ": %s\n", reason_of(sweep, point, &err));
        large = large || strstr(point->err.text, "steps to simulate") != NULL;
        forced = forced || tutti_sweep_may_be_forced(point);
    }
    if (large)
        fprintf(out, "# (--steps-max raises the limit; an algorithm that -a names has none)\n");
    if (forced)
        fprintf(out, "# (--force simulates it all the same)\n");
}

void tutti_sweep_json_machine(const struct tutti_topo *topo, struct tutti_json *json)
{
    struct link_group groups[LINK_GROUPS_MAX];
    uint32_t more = 0;
    uint32_t count = group_links(topo, groups, &more);

    tutti_json_open(json, "topology", '{');
    tutti_json_text(json, "name", topo->name);
    tutti_json_text(json, "source", topo->source);
    tutti_json_count(json, "ranks", topo->rank_count);
    tutti_json_count(json, "hosts", topo->host_count);
    tutti_json_count(json, "nodes", topo->node_count);
    tutti_json_count(json, "links", topo->link_count);
    tutti_json_count(json, "rings", topo->shape.order_count > 1 ? topo->shape.order_count : 1);
    tutti_json_open(json, "levels", '[');
    for (uint32_t i = 0; i < topo->shape.level_count; i++)
        tutti_json_count(json, NULL, topo->shape.level[i]);
    tutti_json_close(json);
    tutti_json_open(json, "dims", '[');
    for (uint32_t i = 0; i < topo->shape.dim_count; i++)
        tutti_json_count(json, NULL, topo->shape.dim[i]);
    tutti_json_close(json);
    tutti_json_open(json, "link_kinds", '[');
    for (uint32_t g = 0; g < count; g++) {
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "kind",
                        tutti_link_kind_name((enum tutti_link_kind)groups[g].link.kind));
        tutti_json_number(json, "rate_GBps", (double)groups[g].link.bytes_per_s / 1e9);
        tutti_json_number(json, "latency_us",
                          (double)groups[g].link.latency_ps / (double)TUTTI_PS_PER_US);
        if (groups[g].link.burst_bytes > 0)
            tutti_json_count(json, "burst_bytes", groups[g].link.burst_bytes);
        tutti_json_count(json, "links", groups[g].link_count);
        tutti_json_close(json);
    }
    tutti_json_close(json);
    tutti_json_close(json);
}

void tutti_sweep_json_head(const struct tutti_sweep *sweep, struct tutti_json *json)
{
    const struct tutti_ask *ask = &sweep->ask;

    tutti_json_text(json, "tutti", TUTTI_BUILD_VERSION);
    tutti_sweep_json_machine(sweep->topo, json);
    tutti_json_text(json, "collective", tutti_collective_name(ask->params.collective));
    tutti_json_text(json, "datatype", tutti_dtype_name(ask->params.dtype));
    tutti_json_text(json, "op",
                    tutti_collective_reduces(ask->params.collective) ? tutti_op_name(ask->params.op)
                                                                     : "none");
    if (tutti_collective_is_rooted(ask->params.collective))
        tutti_json_count(json, "root", ask->params.root);
    tutti_json_text(json, "model", tutti_model_name(ask->model));
    tutti_json_text(json, "protocol", ask->protocol);
    tutti_calib_json_choice(&sweep->calib, json);
    if (sweep->nccl.version != NULL)
        tutti_json_text(json, "nccl",
                        is_rccl(sweep) ? "rccl" : tutti_nccl_version_name(sweep->nccl.version));
    tutti_own_json(&sweep->own, json);
    tutti_json_number(json, "jitter", ask->jitter);
    tutti_json_count(json, "seed", ask->seed);
    tutti_perturb_json(&sweep->perturb, ask->seed, json);
}

void tutti_sweep_json_left_out(const struct tutti_sweep *sweep, struct tutti_json *json)
{
    struct tutti_err err;

    tutti_json_open(json, "left_out", '[');
    for (uint32_t i = 0; i < sweep->algorithm_count; i++) {
        uint32_t count = 0;
        const struct tutti_point *point = left_out(sweep, i, &count);

        if (point == NULL)
            continue;
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "algorithm", point->algorithm);
        tutti_json_count(json, "sizes", count);
        tutti_json_text(json, "why", reason_of(sweep, point, &err));
        tutti_json_close(json);
    }
    tutti_json_close(json);
}
