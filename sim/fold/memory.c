/* The memory of folding; see memory.h.
 *
 * Plays: where a play skipped runs of rounds, it would have gone on in the same way after any other
 * number of them. So it stands for all schedules whose programs differ from its own in repeating
 * rounds alone, each lane's by the same number of runs: with so many runs more, or less, of those
 * that were skipped, it takes so many times longer what a run takes.
 *
 * Schedules: what is read of one is what is read of all of the same recipe. */
#include "sim/fold/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/hops.h"
#include "sim/fold/orbits.h"
#include "sim/play/estimate.h"
#include "sim/play/start.h"
#include "sim/sim.h"

enum {
    LANES_MAX = 8,             /* schedules; the oldest are forgotten */
    WORDS_MAX = 16 << 20,      /* of all but the newest */
    PLAYS_MAX = 24,            /* of a schedule's lanes */
    KINDS_WORDS_MAX = 1 << 18, /* of a play: longer ones are not kept */
    MARGIN = 8,                /* see is_allowed */
    READ_MAX = 64,             /* schedules whose programs are known by their recipes */
    READ_WORDS_MAX = 1 << 16,  /* of one: longer ones are not kept */
};

struct tutti_fold_play {
    struct tutti_fold_play *next;
    struct tutti_protocol protocol; /* a copy: callers may change theirs; no wire_den: none */
    uint64_t reduce_bytes_per_s;
    tutti_ps begin_ps;
    uint32_t slot_count;
    int ordered;
    struct tutti_kinds kinds;
    struct tutti_class_played played;
    struct tutti_class_skip skip;
};

/* What was read of a schedule. */
struct reading {
    const struct tutti_topo *topo;
    const struct tutti_schedule_ops *ops;
    uint64_t *recipe;
    uint32_t recipe_count;
    struct tutti_fold_lanes *lanes;
    struct tutti_kinds kinds;
};

struct tutti_fold_memory {
    struct tutti_fold_lanes *lanes[LANES_MAX]; /* the newest last */
    uint32_t count;
    struct reading readings[READ_MAX];
    uint32_t reading_count;
    uint32_t oldest; /* of them, once there are READ_MAX */
    struct tutti_hops hops;
    struct tutti_known_axes axes;
};

/* ---- what was read --------------------------------------------------------------------------- */

static int copy_kinds(const struct tutti_kinds *from, struct tutti_kinds *to)
{
    size_t kinds = from->count;
    size_t words = from->first[kinds];

    to->count = from->count;
    to->first = malloc((kinds + 1) * sizeof(*to->first));
    to->run_at = malloc((kinds + 1) * sizeof(*to->run_at));
    to->words = malloc((words + 1) * sizeof(*to->words));
    if (to->first == NULL || to->run_at == NULL || to->words == NULL)
        return -TUTTI_ENOMEM;
    memcpy(to->first, from->first, (kinds + 1) * sizeof(*to->first));
    memcpy(to->run_at, from->run_at, kinds * sizeof(*to->run_at));
    if (words > 0)
        memcpy(to->words, from->words, words * sizeof(*to->words));
    return 0;
}

static void free_reading(struct reading *reading)
{
    free(reading->recipe);
    tutti_kinds_done(&reading->kinds);
}

static const struct reading *find_reading(const struct tutti_fold_memory *memory,
                                          const struct tutti_topo *topo,
                                          const struct tutti_schedule *schedule)
{
    for (uint32_t i = 0; i < memory->reading_count && schedule->recipe_count > 0; i++) {
        const struct reading *reading = &memory->readings[i];

        if (reading->topo == topo && reading->ops == schedule->ops &&
            reading->recipe_count == schedule->recipe_count &&
            memcmp(reading->recipe, schedule->recipe,
                   schedule->recipe_count * sizeof(*reading->recipe)) == 0)
            return reading;
    }
    return NULL;
}

/* Remembers what was read, if it is not too much; where there is no memory left it does not. */
static bool keep_reading(struct tutti_fold_memory *memory, const struct tutti_schedule *schedule,
                         struct tutti_fold_lanes *lanes, const struct tutti_kinds *kinds)
{
    struct reading reading = {.topo = lanes->topo,
                              .ops = schedule->ops,
                              .recipe_count = schedule->recipe_count,
                              .lanes = lanes};
    size_t bytes = schedule->recipe_count * sizeof(*reading.recipe);

    if (bytes == 0 || kinds->first[kinds->count] > READ_WORDS_MAX)
        return true;
    reading.recipe = malloc(bytes);
    if (reading.recipe == NULL || copy_kinds(kinds, &reading.kinds) < 0) {
        free_reading(&reading);
        return false;
    }
    memcpy(reading.recipe, schedule->recipe, bytes);
    if (memory->reading_count < READ_MAX) {
        memory->readings[memory->reading_count++] = reading;
        return true;
    }
    free_reading(&memory->readings[memory->oldest]);
    memory->readings[memory->oldest] = reading;
    memory->oldest = (memory->oldest + 1) % READ_MAX;
    return true;
}

/* Forgets readings of lanes that are forgotten. */
static void drop_readings(struct tutti_fold_memory *memory, const struct tutti_fold_lanes *lanes)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < memory->reading_count; i++) {
        if (memory->readings[i].lanes == lanes)
            free_reading(&memory->readings[i]);
        else
            memory->readings[kept++] = memory->readings[i];
    }
    memory->reading_count = kept;
    memory->oldest = 0;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static void free_play(struct tutti_fold_play *play)
{
    tutti_kinds_done(&play->kinds);
    tutti_class_skip_done(&play->skip);
    free(play);
}

static void free_lanes(struct tutti_fold_lanes *lanes)
{
    while (lanes->plays != NULL) {
        struct tutti_fold_play *play = lanes->plays;

        lanes->plays = play->next;
        free_play(play);
    }
    for (int i = 0; i < 2; i++) {
        if (lanes->quotients[i] != NULL)
            tutti_quotient_done(lanes->quotients[i]);
        free(lanes->quotients[i]);
        free(lanes->why[i]);
    }
    tutti_programs_done(&lanes->programs);
    free(lanes);
}

int tutti_fold_memory_new(struct tutti_fold_memory **ret, struct tutti_err *err)
{
    struct tutti_fold_memory *memory = calloc(1, sizeof(*memory));

    if (memory == NULL)
        return tutti_nomem(err);
    *ret = memory;
    return 0;
}

void tutti_fold_memory_free(struct tutti_fold_memory *memory)
{
    for (uint32_t i = 0; memory != NULL && i < memory->reading_count; i++)
        free_reading(&memory->readings[i]);
    for (uint32_t i = 0; memory != NULL && i < memory->count; i++)
        free_lanes(memory->lanes[i]);
    if (memory != NULL)
        tutti_hops_done(&memory->hops);
    free(memory);
}

struct tutti_hops *tutti_fold_memory_hops(struct tutti_fold_memory *memory)
{
    return &memory->hops;
}

struct tutti_known_axes *tutti_fold_memory_axes(struct tutti_fold_memory *memory)
{
    return &memory->axes;
}

static uint64_t words_of(const struct tutti_fold_lanes *lanes)
{
    return UINT64_C(4) * lanes->programs.lane_count + UINT64_C(2) * lanes->programs.wire_count;
}

/* Makes room for a new one: the oldest go. */
static void forget(struct tutti_fold_memory *memory)
{
    uint64_t words = 0;
    uint32_t first = memory->count;

    while (first > 0 && memory->count - first + 1 < LANES_MAX &&
           words + words_of(memory->lanes[first - 1]) <= WORDS_MAX)
        words += words_of(memory->lanes[--first]);
    for (uint32_t i = 0; i < first; i++) {
        drop_readings(memory, memory->lanes[i]);
        free_lanes(memory->lanes[i]);
    }
    memory->count -= first;
    memmove(memory->lanes, memory->lanes + first,
            memory->count * sizeof(struct tutti_fold_lanes *));
}

int tutti_fold_memory_lanes(struct tutti_fold_memory *memory, const struct tutti_topo *topo,
                            const struct tutti_schedule *schedule, struct tutti_fold_lanes **ret,
                            struct tutti_kinds *ret_kinds, struct tutti_err *err)
{
    const struct reading *reading = find_reading(memory, topo, schedule);
    struct tutti_programs programs;
    struct tutti_fold_lanes *lanes;
    int status;

    if (reading != NULL) {
        struct tutti_kinds kinds = {.count = 0};

        if (copy_kinds(&reading->kinds, &kinds) < 0) {
            tutti_kinds_done(&kinds);
            return tutti_nomem(err);
        }
        *ret_kinds = kinds;
        *ret = reading->lanes;
        return 0;
    }
    status = tutti_programs_read(schedule, &programs, err);
    if (status < 0)
        return status;
    *ret_kinds = programs.kinds;
    programs.kinds = (struct tutti_kinds){.count = 0};
    for (uint32_t i = memory->count; i-- > 0;) {
        lanes = memory->lanes[i];
        if (lanes->topo == topo && lanes->per_rank == schedule->lane_count &&
            tutti_programs_match(&lanes->programs, &programs)) {
            tutti_programs_done(&programs);
            if (!keep_reading(memory, schedule, lanes, ret_kinds)) {
                tutti_kinds_done(ret_kinds);
                return tutti_nomem(err);
            }
            *ret = lanes;
            return 0;
        }
    }
    lanes = calloc(1, sizeof(*lanes));
    if (lanes == NULL) {
        tutti_programs_done(&programs);
        tutti_kinds_done(ret_kinds);
        return tutti_nomem(err);
    }
    *lanes = (struct tutti_fold_lanes){
        .topo = topo, .per_rank = schedule->lane_count, .programs = programs};
    forget(memory);
    memory->lanes[memory->count++] = lanes;
    if (!keep_reading(memory, schedule, lanes, ret_kinds)) {
        tutti_kinds_done(ret_kinds);
        return tutti_nomem(err);
    }
    *ret = lanes;
    return 0;
}

int tutti_fold_memory_quotient(struct tutti_fold_lanes *lanes, int ordered, struct tutti_err *err)
{
    struct tutti_quotient *quotient = NULL;
    struct tutti_err *why = NULL;
    int status;

    if (lanes->quotients[ordered] != NULL)
        return 0;
    if (lanes->why[ordered] != NULL) {
        if (err != NULL)
            *err = *lanes->why[ordered];
        return lanes->status[ordered];
    }
    quotient = calloc(1, sizeof(*quotient));
    why = calloc(1, sizeof(*why));
    status = quotient == NULL || why == NULL
                 ? tutti_nomem(why)
                 : tutti_quotient_make(lanes->topo, &lanes->programs, lanes->per_rank, ordered == 1,
                                       quotient, why);
    if (status < 0 && err != NULL && why != NULL)
        *err = *why;
    if (status == -TUTTI_ENOMEM) { /* not for ever */
        free(quotient);
        free(why);
        return tutti_nomem(err);
    }
    lanes->status[ordered] = status;
    if (status == 0) {
        lanes->quotients[ordered] = quotient;
        free(why);
    } else {
        lanes->why[ordered] = why;
        free(quotient);
    }
    return status;
}

/* ---- plays ----------------------------------------------------------------------------------- */

/* How many rounds of a lane's program repeat. */
static uint64_t repeats_of(const struct tutti_kinds *kinds, uint32_t kind)
{
    return kinds->run_at[kind] == UINT32_MAX ? 0 : kinds->words[kinds->run_at[kind]];
}

/* How many more runs than the play's the programs of `kinds` have, the same number for each class
 * of lanes: false if there is no such. */
static bool find_more(const struct tutti_fold_lanes *lanes, const struct tutti_fold_play *play,
                      const struct tutti_kinds *kinds, int64_t *ret)
{
    const struct tutti_quotient *quotient = lanes->quotients[play->ordered];
    bool known = false;

    *ret = 0;
    for (uint32_t id = 0; id < quotient->lane_count; id++) {
        const struct tutti_quotient_lane *is = &quotient->lanes[id];
        uint32_t kind = lanes->programs.kind[(size_t)is->rank * lanes->per_rank + is->lane];
        int64_t more = (int64_t)(repeats_of(kinds, kind) - repeats_of(&play->kinds, kind));
        int64_t rounds = play->skip.runs > 0 ? (int64_t)play->skip.rounds[id] : 0;

        if (rounds == 0 ? more != 0 : more % rounds != 0)
            return false;
        if (rounds == 0)
            continue;
        if (known && more / rounds != *ret)
            return false;
        *ret = more / rounds;
        known = true;
    }
    return *ret >= -(int64_t)play->skip.runs;
}

/* Would it have ended within the clock? */
static bool add_runs(const struct tutti_fold_play *play, const struct tutti_quotient *quotient,
                     int64_t more, struct tutti_class_played *ret, int *status,
                     struct tutti_err *err)
{
    const struct tutti_class_skip *skip = &play->skip;
    tutti_ps end_ps;

    *ret = play->played;
    if (more == 0)
        return true;
    if (__builtin_mul_overflow(more, skip->run_ps, &end_ps) ||
        __builtin_add_overflow(end_ps, ret->end_ps, &end_ps) || end_ps > INT64_MAX / 2)
        return false;
    ret->end_ps = end_ps;
    ret->step_count += (uint64_t)more * skip->step_count;
    *status = tutti_class_load(quotient, skip, more, ret, err);
    return true;
}

/* Whether a play with `more` runs more would not have been refused either. It takes about as many
 * steps and looks at links as the one that is known, which therefore is to have taken far fewer
 * than are allowed, or is the very same: what is answered may not hang on what was asked before. */
static bool is_allowed(const struct tutti_fold_play *play, int64_t more,
                       const struct tutti_sim_opts *opts, uint64_t step_count_max)
{
    uint64_t looks = (more == 0 ? 1 : MARGIN) * play->played.look_count;

    return (step_count_max == 0 || play->played.simulated_count < step_count_max / MARGIN) &&
           tutti_play_is_within(opts, looks);
}

/* Looks for a play that stands for this one. */
static bool is_known(const struct tutti_fold_lanes *lanes, const struct tutti_fold_play *like,
                     const struct tutti_kinds *kinds, const struct tutti_sim_opts *opts,
                     uint64_t step_count_max, struct tutti_class_played *ret, int *status,
                     struct tutti_err *err)
{
    for (const struct tutti_fold_play *play = lanes->plays; play != NULL; play = play->next) {
        int64_t more;

        if (tutti_protocol_same(&play->protocol, &like->protocol) &&
            play->ordered == like->ordered &&
            play->reduce_bytes_per_s == like->reduce_bytes_per_s &&
            play->begin_ps == like->begin_ps && play->slot_count == like->slot_count &&
            tutti_kinds_match(&play->kinds, kinds) && find_more(lanes, play, kinds, &more) &&
            is_allowed(play, more, opts, step_count_max) &&
            add_runs(play, lanes->quotients[play->ordered], more, ret, status, err))
            return true;
    }
    return false;
}

/* The newest first; the oldest is forgotten. */
static void keep_play(struct tutti_fold_lanes *lanes, struct tutti_fold_play *play)
{
    struct tutti_fold_play **link = &lanes->plays;

    play->next = lanes->plays;
    lanes->plays = play;
    for (uint32_t i = 0; i < PLAYS_MAX && *link != NULL; i++)
        link = &(*link)->next;
    if (*link != NULL)
        free_play(*link);
    *link = NULL;
}

int tutti_fold_memory_play(struct tutti_fold_lanes *lanes, const struct tutti_kinds *kinds,
                           int ordered, const struct tutti_sim_opts *opts,
                           const struct tutti_schedule *schedule, uint64_t step_count_max,
                           struct tutti_class_played *ret, struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct tutti_fold_play *play = calloc(1, sizeof(*play));
    int status = 0;

    if (play == NULL)
        return tutti_nomem(err);
    *play = (struct tutti_fold_play){.reduce_bytes_per_s = opts->reduce_bytes_per_s,
                                     .begin_ps = tutti_rank_begin_ps(opts, 0, launch_ps),
                                     .slot_count = schedule->slot_count,
                                     .ordered = ordered};
    if (opts->protocol != NULL)
        play->protocol = *opts->protocol;
    if (is_known(lanes, play, kinds, opts, step_count_max, ret, &status, err)) {
        free_play(play);
        return status;
    }
    status = tutti_class_play_noting(opts, schedule, lanes->quotients[ordered], step_count_max,
                                     &play->skip, ret, err);
    if (status == 0 && kinds->first[kinds->count] <= KINDS_WORDS_MAX &&
        copy_kinds(kinds, &play->kinds) < 0)
        status = tutti_nomem(err);
    if (status < 0 || play->kinds.words == NULL) {
        free_play(play);
        return status;
    }
    play->played = *ret;
    keep_play(lanes, play);
    return 0;
}
