/* Shows a simulated step: bars of its lanes, its largest pieces and what they waited for, and its
 * collectives alone and as they went. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/train/timeline.h"

enum { CELLS = 86, LARGEST = 10, LONGEST = 6, COLLECTIVES = 12 };

static double ms(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_MS;
}

static tutti_ps end_of_rank(const struct tutti_train_timeline *t)
{
    tutti_ps end = 1;

    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        for (size_t i = 0; i < t->count[lane]; i++)
            if (t->piece[lane][i].end_ps > end)
                end = t->piece[lane][i].end_ps;
    return end;
}

static tutti_ps end_of(const struct tutti_train_timeline *t)
{
    tutti_ps end = 1;

    for (uint32_t i = 0; i < t->other_count; i++) {
        tutti_ps other = end_of_rank(t->other[i]);

        end = other > end ? other : end;
    }
    return end_of_rank(t) > end ? end_of_rank(t) : end;
}

/* ---- bars ------------------------------------------------------------------------------------ */

enum glyph { IDLE, FORWARD, BACKWARD, OPTIMIZER, INPUT, SUM, COLLECTIVE, GLYPHS };

/* What fills most of a column, and, in small letters, less than half of it. */
static const char large[GLYPHS] = {'.', 'F', 'B', 'O', 'I', 'S', 'C'};
static const char small[GLYPHS] = {'.', 'f', 'b', 'o', 'i', 's', 'c'};

static enum glyph glyph_of(const struct tutti_train_timeline *t, const struct tutti_train_piece *p)
{
    const struct tutti_work *work;

    if (p->step.kind == TUTTI_CALL)
        return COLLECTIVE;
    if (p->step.kind != TUTTI_COMPUTE || p->step.peer == 0)
        return SUM;
    work = &t->schedule->work[p->step.peer - 1];
    if (work->kind == TUTTI_WORK_OPTIMIZER)
        return OPTIMIZER;
    if (work->kind == TUTTI_WORK_INPUT)
        return INPUT;
    if (strstr(work->name, ".backward") != NULL)
        return BACKWARD;
    return strstr(work->name, ".forward") != NULL ? FORWARD : SUM;
}

/* Adds a stretch of time to the columns that it lies in. */
static void spread(double filled[CELLS][GLYPHS], double cell_ps, const struct tutti_train_piece *p,
                   enum glyph glyph)
{
    double begin = (double)p->begin_ps / cell_ps;
    double end = (double)p->end_ps / cell_ps;

    for (int i = (int)begin; i < CELLS && i < end; i++)
        filled[i][glyph] += fmin(end, i + 1) - fmax(begin, i);
}

static void print_bar(const struct tutti_train_timeline *t, uint32_t lane, tutti_ps total_ps,
                      FILE *out)
{
    double filled[CELLS][GLYPHS] = {{0}};
    char bar[CELLS + 1] = "";

    for (size_t i = 0; i < t->count[lane]; i++)
        spread(filled, (double)total_ps / CELLS, &t->piece[lane][i],
               glyph_of(t, &t->piece[lane][i]));
    for (int i = 0; i < CELLS; i++) {
        int most = FORWARD;
        double busy = 0;

        for (int g = FORWARD; g < GLYPHS; g++) {
            busy += filled[i][g];
            if (filled[i][g] > filled[i][most])
                most = g;
        }
        bar[i] = busy <= 0 ? large[IDLE] : busy < 0.5 ? small[most] : large[most];
    }
    fprintf(out, "  %-8s %.*s\n", tutti_train_lane_name(lane), CELLS, bar);
}

static void print_lanes(const struct tutti_train_timeline *t, tutti_ps total_ps, FILE *out)
{
    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        if (t->count[lane] > 0)
            print_bar(t, lane, total_ps, out);
}

static void print_bars(const struct tutti_train_timeline *t, FILE *out)
{
    tutti_ps total_ps = end_of(t);
    char number[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# a step of rank 0%s, %s ms",
            t->other_count > 0 ? ", and of those that differ" : "",
            tutti_number_text(ms(total_ps), number));
    fprintf(out, "; a column is %s ms\n", tutti_number_text(ms(total_ps) / CELLS, number));
    fprintf(out, "# Forward, Backward, Optimizer, Input, Sums, Collectives; small: less than half "
                 "of a column\n");
    print_lanes(t, total_ps, out);
    for (uint32_t i = 0; i < t->other_count; i++) {
        fprintf(out, "# rank %u\n", t->other[i]->rank);
        print_lanes(t->other[i], total_ps, out);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct chosen {
    const struct tutti_train_timeline *timeline;
    uint32_t lane;
    size_t index;
    tutti_ps takes_ps;
    tutti_ps waited_ps;
    bool others;                           /* for ranks that came later to a collective */
    const struct tutti_train_piece *cause; /* else for this */
    bool wanted;
};

/* What a piece waited for, beyond the end of the one before it in its lane. */
static void find_wait(struct chosen *c)
{
    const struct tutti_train_timeline *t = c->timeline;
    const struct tutti_train_piece *p = &t->piece[c->lane][c->index];
    tutti_ps free_ps = c->index > 0 ? t->piece[c->lane][c->index - 1].end_ps : 0;

    if ((p->step.flags & TUTTI_STEP_DEP) != 0 && p->step.dep_lane < TUTTI_STRATEGY_LANES &&
        p->step.dep_step < t->count[p->step.dep_lane])
        c->cause = &t->piece[p->step.dep_lane][p->step.dep_step];
    c->takes_ps = p->end_ps - p->begin_ps;
    c->waited_ps = p->begin_ps > free_ps ? p->begin_ps - free_ps : 0;
    c->others = p->step.kind == TUTTI_CALL && p->begin_ps - p->came_ps > c->waited_ps / 2;
}

static int compare_ps(tutti_ps a, tutti_ps b)
{
    return (a > b) - (a < b);
}

static int by_place(const struct chosen *a, const struct chosen *b)
{
    const struct tutti_train_timeline *t = a->timeline;
    int order =
        compare_ps(t->piece[a->lane][a->index].begin_ps, t->piece[b->lane][b->index].begin_ps);

    if (order == 0)
        order = (a->lane > b->lane) - (a->lane < b->lane);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static int by_begin(const void *left, const void *right)
{
    return by_place(left, right);
}

static int by_takes(const void *left, const void *right)
{
    const struct chosen *a = left;
    const struct chosen *b = right;
    int order = compare_ps(b->takes_ps, a->takes_ps);

    return order != 0 ? order : by_place(a, b);
}

/* Those of the work lane first: what its waits are is what a step is longer by. */
static int by_waited(const void *left, const void *right)
{
    const struct chosen *a = left;
    const struct chosen *b = right;
    int order = (a->lane != TUTTI_LANE_WORK) - (b->lane != TUTTI_LANE_WORK);

    if (order == 0)
        order = compare_ps(b->waited_ps, a->waited_ps);
    return order != 0 ? order : by_place(a, b);
}

/* The largest, and those that waited longest, in the order of their begin. */
static int choose(const struct tutti_train_timeline *t, struct chosen **ret, size_t *ret_count,
                  struct tutti_err *err)
{
    struct chosen *all;
    size_t count = 0;
    size_t kept = 0;

    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        count += t->count[lane];
    all = calloc(count + 1, sizeof(*all));
    if (all == NULL)
        return tutti_nomem(err);
    count = 0;
    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        for (size_t i = 0; i < t->count[lane]; i++) {
            all[count] = (struct chosen){.timeline = t, .lane = lane, .index = i};
            find_wait(&all[count++]);
        }
    qsort(all, count, sizeof(*all), by_takes);
    for (size_t i = 0; i < count && i < LARGEST; i++)
        all[i].wanted = all[i].takes_ps > 0;
    qsort(all, count, sizeof(*all), by_waited);
    for (size_t i = 0; i < count && i < LONGEST; i++)
        all[i].wanted |= all[i].lane == TUTTI_LANE_WORK && all[i].waited_ps > 0;
    qsort(all, count, sizeof(*all), by_begin);
    for (size_t i = 0; i < count; i++)
        if (all[i].wanted)
            all[kept++] = all[i];
    *ret = all;
    *ret_count = kept;
    return 0;
}

/* A collective that was short itself, and whose last rank was late, is no cause. */
static const char *cause_of(const struct chosen *c, char buf[TUTTI_TRAIN_PIECE_BYTES + 16])
{
    const struct tutti_train_piece *p = c->cause;
    char name[TUTTI_TRAIN_PIECE_BYTES];

    if (c->waited_ps == 0 || (p == NULL && !c->others))
        return "";
    if (c->others)
        return "late ranks";
    (void)snprintf(buf, TUTTI_TRAIN_PIECE_BYTES + 16, "%s%s",
                   tutti_train_piece_name(c->timeline, p, name),
                   p->step.kind == TUTTI_CALL && p->begin_ps - p->came_ps > p->end_ps - p->begin_ps
                       ? ", late ranks"
                       : "");
    return buf;
}

static int make_pieces(const struct tutti_train_timeline *t, struct tutti_table **ret,
                       struct tutti_err *err)
{
    static const struct tutti_column columns[] = {
        {"lane", "lane", "", TUTTI_CELL_TEXT},
        {"begin_ms", "begin", "ms", TUTTI_CELL_NUMBER},
        {"end_ms", "end", "ms", TUTTI_CELL_NUMBER},
        {"takes_ms", "takes", "ms", TUTTI_CELL_NUMBER},
        {"piece", "piece", "", TUTTI_CELL_TEXT},
        {"waited_ms", "waited", "ms", TUTTI_CELL_NUMBER},
        {"waited_for", "for", "", TUTTI_CELL_TEXT},
    };
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    struct chosen *chosen = NULL;
    size_t count = 0;
    int status = table == NULL ? tutti_nomem(err) : choose(t, &chosen, &count, err);

    for (size_t i = 0; i < count && status == 0; i++) {
        const struct chosen *c = &chosen[i];
        const struct tutti_train_piece *p = &t->piece[c->lane][c->index];
        char name[TUTTI_TRAIN_PIECE_BYTES];
        char cause[TUTTI_TRAIN_PIECE_BYTES + 16];

        status = tutti_table_add(table, tutti_train_lane_name(c->lane), ms(p->begin_ps),
                                 ms(p->end_ps), ms(c->takes_ps), tutti_train_piece_name(t, p, name),
                                 ms(c->waited_ps), cause_of(c, cause));
        if (status < 0)
            status = tutti_nomem(err);
    }
    free(chosen);
    if (status == 0)
        *ret = table;
    else
        tutti_table_free(table);
    return status;
}

/* ---- collectives ----------------------------------------------------------------------------- */

struct calls {
    const struct tutti_train_call *call;
    const char *lane;
    uint64_t count;
    tutti_ps sum_ps; /* as they went */
};

static int by_sum(const void *left, const void *right)
{
    const struct calls *a = left;
    const struct calls *b = right;
    int order = compare_ps(b->sum_ps, a->sum_ps);

    return order != 0 ? order
                      : (a->call->callee > b->call->callee) - (a->call->callee < b->call->callee);
}

static void count_calls(const struct tutti_train_timeline *t, struct calls *calls)
{
    for (size_t k = 0; k < t->call_count; k++)
        calls[k].call = &t->call[k];
    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        for (size_t i = 0; i < t->count[lane]; i++) {
            const struct tutti_train_piece *p = &t->piece[lane][i];

            for (size_t k = 0; k < t->call_count && p->step.kind == TUTTI_CALL; k++) {
                if (calls[k].call->callee != p->step.peer || calls[k].call->axis != p->step.axis)
                    continue;
                calls[k].lane = tutti_train_lane_name(lane);
                calls[k].count++;
                calls[k].sum_ps += p->end_ps - p->begin_ps;
                break;
            }
        }
}

static int make_calls(const struct tutti_train_timeline *t, struct tutti_table **ret,
                      struct tutti_err *err)
{
    static const struct tutti_column columns[] = {
        {"lane", "lane", "", TUTTI_CELL_TEXT},
        {"collective", "collective", "", TUTTI_CELL_TEXT},
        {"ranks", "ranks", "", TUTTI_CELL_COUNT},
        {"bytes", NULL, "", TUTTI_CELL_COUNT},
        {"size_MB", "size", "MB", TUTTI_CELL_NUMBER},
        {"times", "times", "", TUTTI_CELL_COUNT},
        {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
        {"protocol", "protocol", "", TUTTI_CELL_TEXT},
        {"alone_ms", "alone", "ms", TUTTI_CELL_NUMBER},
        {"with_sharing_ms", "sharing", "ms", TUTTI_CELL_NUMBER},
    };
    struct tutti_table *table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    struct calls *calls = calloc(t->call_count + 1, sizeof(*calls));
    int status = table == NULL || calls == NULL ? tutti_nomem(err) : 0;

    if (status == 0) {
        count_calls(t, calls);
        qsort(calls, t->call_count, sizeof(*calls), by_sum);
    }
    for (size_t k = 0; k < t->call_count && k < COLLECTIVES && status == 0; k++) {
        const struct tutti_train_call *c = calls[k].call;

        if (calls[k].count == 0)
            continue;
        status = tutti_table_add(table, calls[k].lane, tutti_collective_name(c->collective),
                                 (uint64_t)c->ranks, c->bytes, (double)c->bytes / 1e6,
                                 calls[k].count, c->algorithm == NULL ? "ring" : c->algorithm,
                                 c->protocol == NULL ? "none" : c->protocol, ms(c->alone_ps),
                                 ms(calls[k].sum_ps) / (double)calls[k].count);
        if (status < 0)
            status = tutti_nomem(err);
    }
    free(calls);
    if (status == 0)
        *ret = table;
    else
        tutti_table_free(table);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

int tutti_train_explain(const struct tutti_train_timeline *t, struct tutti_page *page,
                        struct tutti_err *err)
{
    struct tutti_table *pieces = NULL;
    struct tutti_table *calls = NULL;
    int status = make_pieces(t, &pieces, err);

    if (status == 0)
        status = make_calls(t, &calls, err);
    if (status == 0) {
        fputc('\n', page->out);
        print_bars(t, page->out);
        fprintf(page->out, "\n# the largest pieces, and the longest waits of the device%s\n",
                t->other_count > 0 ? ", of rank 0" : "");
        tutti_table_print(pieces, page);
    }
    if (status == 0 && tutti_table_rows(calls) > 0) {
        fprintf(page->out, "\n# collectives: each alone, and as they went beside others");
        fprintf(page->out, t->call_count > COLLECTIVES ? ", the %d longest of %zu\n" : "\n",
                COLLECTIVES, t->call_count);
        tutti_table_print(calls, page);
    }
    tutti_table_free(pieces);
    tutti_table_free(calls);
    return status;
}

int tutti_train_explain_json(const struct tutti_train_timeline *t, struct tutti_json *json,
                             struct tutti_err *err)
{
    struct tutti_table *pieces = NULL;
    struct tutti_table *calls = NULL;
    int status = make_pieces(t, &pieces, err);

    if (status == 0)
        status = make_calls(t, &calls, err);
    if (status == 0) {
        tutti_table_json(pieces, "pieces", json);
        tutti_table_json(calls, "collectives", json);
    }
    tutti_table_free(pieces);
    tutti_table_free(calls);
    return status;
}
