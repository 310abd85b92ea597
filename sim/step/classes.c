/* Classes of ranks: first by program, pace and routes, then by the classes of groups and peers,
 * until their number stands (colour refinement; equitable partitions, Godsil & Royle 2001, 9.3). */
#include "sim/step/classes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/step/price.h"
#include "sim/step/tuples.h"
#include "topo/topo.h"

struct words {
    uint64_t *items;
    size_t count;
    size_t capacity;
};

struct finder {
    const struct tutti_step_opts *opts;
    const struct tutti_schedule *s;
    struct tutti_step_classes *found;
    struct tutti_tuples programs;
    struct tutti_tuples said;  /* numbers that the schedule gives programs, */
    uint32_t *program_of_said; /* and which they are */
    uint32_t said_capacity;
    struct tutti_tuples keys; /* of ranks, in one turn */
    struct tutti_tuples groups;
    uint32_t *program;        /* [rank] */
    size_t *first_peer;       /* [rank + 1], in `peers` */
    struct words peers;       /* of SENDs and RECVs, lane by lane, by first use */
    struct words work;        /* where a tuple is put together */
    struct tutti_step astray; /* of no kind: none is */
    uint32_t astray_rank;
    uint64_t *members;   /* [largest group] */
    bool *calls;         /* [axis]: some rank does */
    struct {             /* [program] */
        uint8_t *axes;   /* [axis]: it calls there */
        uint64_t *steps; /* how many it has */
        uint32_t capacity;
    } of_program;
};

static bool push(struct words *words, uint64_t word)
{
    if (words->count == words->capacity) {
        size_t capacity = 2 * words->capacity + 64;
        uint64_t *items = realloc(words->items, capacity * sizeof(*items));

        if (items == NULL)
            return false;
        words->items = items;
        words->capacity = capacity;
    }
    words->items[words->count++] = word;
    return true;
}

/* ---- programs -------------------------------------------------------------------------------- */

/* Which peer of its lane a SEND or RECV has, counted by first use from `first` of the peers on. */
static uint64_t number_peer(struct finder *f, size_t first, const struct tutti_step *step,
                            bool *done)
{
    uint64_t peer = (uint64_t)step->peer << 1 | (step->kind == TUTTI_RECV);
    size_t i = first;

    while (i < f->peers.count && f->peers.items[i] != peer)
        i++;
    if (i == f->peers.count)
        *done &= push(&f->peers, peer);
    return i - first;
}

/* What would lead out of the schedule's tables; all else that is wrong shows in the play. */
static bool is_astray(const struct finder *f, uint32_t rank, const struct tutti_step *step)
{
    struct tutti_axis axis;
    uint32_t group;
    uint32_t member;

    if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane >= f->s->lane_count)
        return true;
    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV)
        return step->peer >= f->s->rank_count || step->peer == rank;
    if (step->kind != TUTTI_CALL)
        return step->kind < TUTTI_SEND || step->kind > TUTTI_CALL;
    if (step->peer >= f->s->callee_count || step->axis > f->s->axis_count)
        return true;
    axis = tutti_schedule_axis(f->s, step->axis);
    return !tutti_axis_find(&axis, rank, &group, &member);
}

static bool note_step(struct finder *f, uint32_t rank, size_t first_peer,
                      const struct tutti_step *step)
{
    bool moves = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
    bool done = !is_astray(f, rank, step);
    uint64_t who;

    if (!done) {
        f->astray = *step;
        f->astray_rank = rank;
        return false;
    }
    who = moves ? number_peer(f, first_peer, step, &done) : step->peer;

    done &= push(&f->work, step->kind | (uint64_t)step->flags << 8 | (uint64_t)step->axis << 16 |
                               (uint64_t)step->dep_lane << 32);
    done &= push(&f->work, step->dep_step | who << 32);
    done &= push(&f->work, step->bytes);
    done &= push(&f->work, step->kind == TUTTI_COMPUTE ? (uint64_t)step->duration_ps : 0);
    return done;
}

/* Axes and steps of a program that is seen for the first time. */
static bool note_program(struct finder *f, uint32_t program, uint64_t step_count)
{
    uint32_t axis_count = f->s->axis_count + 1;

    if (program >= f->of_program.capacity) {
        uint32_t capacity = 2 * f->of_program.capacity + 8;
        uint8_t *axes = realloc(f->of_program.axes, (size_t)capacity * axis_count);
        uint64_t *steps;

        if (axes == NULL)
            return false;
        f->of_program.axes = axes;
        steps = realloc(f->of_program.steps, capacity * sizeof(*steps));
        if (steps == NULL)
            return false;
        f->of_program.steps = steps;
        f->of_program.capacity = capacity;
    }
    memset(f->of_program.axes + (size_t)program * axis_count, 0, axis_count);
    f->of_program.steps[program] = step_count;
    for (size_t i = 0; i < f->work.count; i++) {
        if (f->work.items[i] == UINT64_MAX) /* a lane begins */
            continue;
        if ((f->work.items[i] & 0xff) == TUTTI_CALL)
            f->of_program.axes[(size_t)program * axis_count + (f->work.items[i] >> 16 & 0xff)] = 1;
        i += 3;
    }
    return true;
}

/* Reads the program of a rank. */
static bool read_program(struct finder *f, uint32_t rank)
{
    uint64_t step_count = 0;
    bool done = true;

    f->work.count = 0;
    for (uint32_t lane = 0; lane < f->s->lane_count && done; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;
        size_t first_peer = f->peers.count;

        done = push(&f->work, UINT64_MAX);
        tutti_cursor_open(&cursor, f->s, rank, lane);
        for (; done && (step = tutti_cursor_next(&cursor)) != NULL; step_count++)
            done = note_step(f, rank, first_peer, step);
    }
    if (!done)
        return false;
    f->program[rank] = tutti_tuples_number(&f->programs, f->work.items, f->work.count);
    if (f->program[rank] == UINT32_MAX)
        return false;
    return f->program[rank] + 1 < f->programs.count || f->programs.count == 0 ||
           note_program(f, f->program[rank], step_count);
}

/* The program of a rank by what the schedule says, if one of its number, without peers, is known.
 */
static bool is_said(struct finder *f, uint32_t rank, uint32_t *ret_said)
{
    uint64_t word = f->s->ops->program(f->s, rank);
    uint32_t before = f->said.count;

    *ret_said = tutti_tuples_number(&f->said, &word, 1);
    if (*ret_said == UINT32_MAX || f->said.count > before)
        return false;
    f->program[rank] = f->program_of_said[*ret_said];
    return f->program[rank] != UINT32_MAX;
}

static bool learn_said(struct finder *f, uint32_t said, uint32_t program, bool has_peers)
{
    if (said >= f->said_capacity) {
        uint32_t capacity = 2 * f->said_capacity + 16;
        uint32_t *larger = realloc(f->program_of_said, capacity * sizeof(*larger));

        if (larger == NULL)
            return false;
        f->program_of_said = larger;
        f->said_capacity = capacity;
    }
    f->program_of_said[said] = has_peers ? UINT32_MAX : program;
    return true;
}

static bool read_programs(struct finder *f)
{
    for (uint32_t rank = 0; rank < f->s->rank_count; rank++) {
        uint32_t said = 0;

        f->first_peer[rank] = f->peers.count;
        if (f->s->ops->program != NULL && is_said(f, rank, &said))
            continue;
        if (said == UINT32_MAX || !read_program(f, rank) ||
            (f->s->ops->program != NULL &&
             !learn_said(f, said, f->program[rank], f->peers.count > f->first_peer[rank])))
            return false;
    }
    f->first_peer[f->s->rank_count] = f->peers.count;
    return true;
}

/* ---- refining -------------------------------------------------------------------------------- */

static bool calls_on(const struct finder *f, uint32_t rank, uint32_t axis)
{
    return f->of_program.axes[(size_t)f->program[rank] * (f->s->axis_count + 1) + axis] != 0;
}

/* Program, pace, rate of the device, and figures of the routes to peers. */
static bool first_key(struct finder *f, uint32_t rank)
{
    const struct tutti_topo *topo = f->opts->topo;
    uint64_t route[TUTTI_ROUTE_WORDS];
    bool done;

    f->work.count = 0;
    done = push(&f->work, f->program[rank]);
    done &= push(&f->work, f->opts->pace_ppm == NULL ? TUTTI_PACE : f->opts->pace_ppm[rank]);
    done &= push(&f->work, tutti_topo_node(topo, tutti_topo_rank_node(topo, rank)).flops_per_s);
    for (size_t i = f->first_peer[rank]; i < f->first_peer[rank + 1]; i++) {
        uint32_t peer = (uint32_t)(f->peers.items[i] >> 1);
        bool receives = (f->peers.items[i] & 1) != 0;

        tutti_step_route(topo, receives ? peer : rank, receives ? rank : peer, route);
        for (uint32_t k = 0; k < TUTTI_ROUTE_WORDS; k++)
            done &= push(&f->work, route[k]);
    }
    return done;
}

/* The class so far, and those of groups and peers. */
static bool next_key(struct finder *f, uint32_t rank)
{
    const struct tutti_step_classes *c = f->found;
    bool done;

    f->work.count = 0;
    done = push(&f->work, c->of[rank]);
    for (uint32_t axis = 0; axis <= f->s->axis_count; axis++)
        if (f->calls[axis])
            done &= push(&f->work, c->group[(size_t)axis * f->s->rank_count + rank]);
    for (size_t i = f->first_peer[rank]; i < f->first_peer[rank + 1]; i++)
        done &= push(&f->work, c->of[f->peers.items[i] >> 1]);
    return done;
}

/* Numbers the keys of all ranks. */
static bool number_ranks(struct finder *f, bool (*key)(struct finder *f, uint32_t rank))
{
    struct tutti_step_classes *c = f->found;
    uint32_t *of = malloc((size_t)f->s->rank_count * sizeof(*of));
    bool done = of != NULL;

    tutti_tuples_clear(&f->keys);
    for (uint32_t rank = 0; rank < f->s->rank_count && done; rank++) {
        done = key(f, rank);
        if (done)
            of[rank] = tutti_tuples_number(&f->keys, f->work.items, f->work.count);
        done = done && of[rank] != UINT32_MAX;
    }
    if (!done) {
        free(of);
        return false;
    }
    free(c->of);
    c->of = of;
    c->count = f->keys.count;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

/* The tuple of a group: its axis, and how many members each class has. */
static bool group_key(struct finder *f, const struct tutti_axis *rule, uint32_t axis,
                      uint32_t group)
{
    const uint32_t *of = f->found->of;
    bool sorted = true;
    bool done;

    for (uint32_t i = 0; i < rule->size; i++) {
        uint32_t rank = tutti_axis_rank(rule, group, i);

        f->members[i] = calls_on(f, rank, axis) ? of[rank] : UINT32_MAX;
        sorted &= i == 0 || f->members[i - 1] <= f->members[i];
    }
    if (!sorted)
        qsort(f->members, rule->size, sizeof(*f->members), by_value);
    f->work.count = 0;
    done = push(&f->work, axis);
    for (uint32_t i = 0; i < rule->size && done; i++) {
        if (i > 0 && f->members[i] == f->members[i - 1])
            f->work.items[f->work.count - 1]++;
        else
            done = push(&f->work, f->members[i]) && push(&f->work, 1);
    }
    return done;
}

static bool number_groups(struct finder *f)
{
    struct tutti_step_classes *c = f->found;

    tutti_tuples_clear(&f->groups);
    for (uint32_t axis = 0; axis <= f->s->axis_count; axis++) {
        struct tutti_axis rule = tutti_schedule_axis(f->s, axis);
        uint32_t group_count = f->calls[axis] ? tutti_axis_group_count(&rule) : 0;

        for (uint32_t group = 0; group < group_count; group++) {
            uint32_t number;

            if (!group_key(f, &rule, axis, group))
                return false;
            number = tutti_tuples_number(&f->groups, f->work.items, f->work.count);
            if (number == UINT32_MAX)
                return false;
            for (uint32_t i = 0; i < rule.size; i++)
                c->group[(size_t)axis * f->s->rank_count + tutti_axis_rank(&rule, group, i)] =
                    number;
        }
    }
    c->group_count = f->groups.count;
    return true;
}

/* Every rank a class of its own, every group another. */
static bool take_all_apart(struct finder *f)
{
    for (uint32_t rank = 0; rank < f->s->rank_count; rank++)
        f->found->of[rank] = rank;
    f->found->count = f->s->rank_count;
    return number_groups(f);
}

static bool refine(struct finder *f)
{
    uint32_t before = 0;

    if (!number_ranks(f, first_key))
        return false;
    if (f->opts->unfolded)
        return take_all_apart(f);
    do {
        before = f->found->count;
        if (!number_groups(f) || !number_ranks(f, next_key))
            return false;
    } while (f->found->count > before);
    return number_groups(f);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool open_finder(struct finder *f)
{
    const size_t n = f->s->rank_count;
    const size_t axis_count = f->s->axis_count + 1u;

    f->program = calloc(n, sizeof(*f->program));
    f->first_peer = calloc(n + 1, sizeof(*f->first_peer));
    f->members = calloc(n, sizeof(*f->members));
    f->calls = calloc(axis_count, sizeof(*f->calls));
    f->found->of = calloc(n, sizeof(*f->found->of));
    f->found->group = malloc(axis_count * n * sizeof(*f->found->group));
    if (f->program == NULL || f->first_peer == NULL || f->members == NULL || f->calls == NULL ||
        f->found->of == NULL || f->found->group == NULL)
        return false;
    memset(f->found->group, 0xff, axis_count * n * sizeof(*f->found->group));
    return true;
}

static void close_finder(struct finder *f)
{
    tutti_tuples_done(&f->programs);
    tutti_tuples_done(&f->said);
    tutti_tuples_done(&f->keys);
    tutti_tuples_done(&f->groups);
    free(f->program_of_said);
    free(f->program);
    free(f->first_peer);
    free(f->peers.items);
    free(f->work.items);
    free(f->members);
    free(f->calls);
    free(f->of_program.axes);
    free(f->of_program.steps);
}

static void note_calls(struct finder *f)
{
    for (uint32_t program = 0; program < f->programs.count; program++)
        for (uint32_t axis = 0; axis <= f->s->axis_count; axis++)
            f->calls[axis] |=
                f->of_program.axes[(size_t)program * (f->s->axis_count + 1) + axis] != 0;
    for (uint32_t rank = 0; rank < f->s->rank_count; rank++)
        f->found->step_count += f->of_program.steps[f->program[rank]];
}

/* The classes of ranks of each class of groups; who does not call there is of none. */
static bool list_members(struct finder *f)
{
    struct tutti_step_classes *c = f->found;
    uint32_t count = 0;

    c->group_first = calloc((size_t)c->group_count + 1, sizeof(*c->group_first));
    c->members = calloc(f->groups.word_count / 2 + 1, sizeof(*c->members));
    if (c->group_first == NULL || c->members == NULL)
        return false;
    for (uint32_t g = 0; g < c->group_count; g++) {
        for (size_t i = f->groups.first[g] + 1; i < f->groups.first[g + 1]; i += 2)
            if (f->groups.words[i] != UINT32_MAX)
                c->members[count++] = (uint32_t)f->groups.words[i];
        c->group_first[g + 1] = count;
    }
    return true;
}

/* Lowest ranks, and how many classes of ranks each class of groups has. */
static bool describe(struct finder *f)
{
    struct tutti_step_classes *c = f->found;

    c->first = malloc(((size_t)c->count + 1) * sizeof(*c->first));
    c->kinds = calloc((size_t)c->group_count + 1, sizeof(*c->kinds));
    if (c->first == NULL || c->kinds == NULL)
        return false;
    memset(c->first, 0xff, (size_t)c->count * sizeof(*c->first));
    for (uint32_t rank = 0; rank < f->s->rank_count; rank++)
        if (c->first[c->of[rank]] == UINT32_MAX)
            c->first[c->of[rank]] = rank;
    for (uint32_t g = 0; g < c->group_count; g++) /* an axis, then two words a class */
        c->kinds[g] = (uint32_t)((f->groups.first[g + 1] - f->groups.first[g] - 1) / 2);
    return list_members(f);
}

static int refuse(const struct finder *f, struct tutti_err *err)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    if (f->astray.kind == 0 && f->astray.bytes == 0)
        return tutti_nomem(err);
    return tutti_fail(err, TUTTI_ECHECK,
                      "rank %u: a step that names what is not there (%s); tutti_schedule_check "
                      "says more",
                      f->astray_rank, tutti_step_text(&f->astray, text));
}

int tutti_step_classes_find(const struct tutti_step_opts *opts, struct tutti_step_classes *ret,
                            struct tutti_err *err)
{
    struct tutti_step_classes found = {.count = 0};
    struct finder f = {.opts = opts, .s = opts->schedule, .found = &found};
    bool done = open_finder(&f) && read_programs(&f);

    if (done)
        note_calls(&f);
    done = done && refine(&f) && describe(&f);
    close_finder(&f);
    if (!done) {
        tutti_step_classes_done(&found);
        return refuse(&f, err);
    }
    *ret = found;
    return 0;
}

void tutti_step_classes_done(struct tutti_step_classes *classes)
{
    free(classes->of);
    free(classes->first);
    free(classes->group);
    free(classes->kinds);
    free(classes->members);
    free(classes->group_first);
    *classes = (struct tutti_step_classes){.count = 0};
}
