/* Reads programs: a lane becomes a string of words, one or more a step, in which peers are numbered
 * in the order of first use. Rounds that repeat (the schedule says which) are read once. Strings
 * are compared themselves; hashes only say where to look.
 *
 * Price: the rounds of all lanes that do not repeat. */
#include "sim/fold/programs.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"

#define NONE UINT32_MAX

enum {
    STEPS_MAX = 6 << 20, /* read in all; some tenths of a second */
    LANES_MAX = 1 << 20,
    WIRES_MAX = 1 << 20,
    KINDS_MAX = 8192,
    TABLE_SIZE = 4 * KINDS_MAX,
    STORE_MAX = 16 << 20, /* words */
};

/* Ranks that a lane has met, in one direction. */
struct meeting {
    uint64_t *stamp; /* [rank]: lane + 1 (the serial number of the reading) << 32 | index */
    uint32_t *peers; /* growing: of all lanes */
    uint32_t capacity;
    uint32_t count;
    uint32_t first; /* of this lane */
};

struct reader {
    const struct tutti_schedule *schedule;
    struct tutti_programs *programs;
    struct meeting out;
    struct meeting in;
    uint64_t *words; /* of the lane being read */
    uint32_t word_count;
    uint32_t word_capacity;
    uint64_t *store; /* of all kinds, one after another */
    uint32_t store_count;
    uint32_t store_capacity;
    uint32_t kind_count;
    uint32_t kind_first[KINDS_MAX + 1]; /* in store */
    uint32_t run_at[KINDS_MAX];
    uint32_t run_word;  /* of the lane being read, the last one that counts rounds that repeat */
    uint32_t run_count; /* how many there are */
    uint32_t table[TABLE_SIZE]; /* kind + 1, or 0 */
    uint64_t step_count;        /* read so far, of all lanes */
    uint64_t index;             /* of the next step of the lane */
    uint32_t dep_lane;
    struct tutti_round round;
};

static int put(struct reader *reader, uint64_t word)
{
    if (tutti_grow(&reader->words, &reader->word_capacity, (uint64_t)reader->word_count + 1,
                   sizeof(*reader->words)) < 0)
        return -TUTTI_ENOMEM;
    reader->words[reader->word_count++] = word;
    return 0;
}

/* The number of a peer among those met by the lane. */
static int meet(struct meeting *meeting, uint32_t lane, uint32_t peer, uint32_t *ret)
{
    uint64_t *stamp = &meeting->stamp[peer];

    if (*stamp >> 32 != (uint64_t)lane + 1) {
        if (tutti_grow(&meeting->peers, &meeting->capacity, (uint64_t)meeting->count + 1,
                       sizeof(*meeting->peers)) < 0)
            return -TUTTI_ENOMEM;
        *stamp = ((uint64_t)lane + 1) << 32 | (meeting->count - meeting->first);
        meeting->peers[meeting->count++] = peer;
    }
    *ret = (uint32_t)*stamp;
    return 0;
}

static int refuse(const struct reader *reader, const char *why, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK, "'%s': %s", reader->schedule->name, why);
}

static int read_dep(struct reader *reader, uint32_t lane, const struct tutti_step *step,
                    struct tutti_err *err)
{
    uint32_t other = lane - lane % reader->schedule->lane_count + step->dep_lane;
    int status = put(reader, (uint64_t)other - lane);

    if (status == 0)
        status = put(reader, other == lane ? reader->index - step->dep_step : step->dep_step);
    if (status < 0)
        return tutti_nomem(err);
    if (other == lane)
        return 0;
    if (reader->dep_lane != NONE && reader->dep_lane != other)
        return refuse(reader, "a lane waits for several others", err);
    reader->dep_lane = other;
    return 0;
}

static int read_step(struct reader *reader, uint32_t lane, const struct tutti_step *step,
                     struct tutti_err *err)
{
    uint64_t flags = step->flags & (TUTTI_STEP_DEP | TUTTI_STEP_FUSE);
    uint32_t peer = 0;
    int status = 0;

    if (step->kind == TUTTI_COMPUTE || step->kind == TUTTI_CALL)
        return refuse(reader, "its ranks compute or call", err);
    if (step->kind == TUTTI_SEND || step->kind == TUTTI_RECV) {
        if (step->peer >= reader->schedule->rank_count)
            return refuse(reader, "a peer is not there", err);
        status =
            meet(step->kind == TUTTI_SEND ? &reader->out : &reader->in, lane, step->peer, &peer);
    }
    if (status == 0)
        status = put(reader, (uint64_t)peer << 32 | flags << 8 | step->kind);
    if (status == 0)
        status = put(reader, step->bytes);
    if (status < 0)
        return tutti_nomem(err);
    if ((flags & TUTTI_STEP_DEP) != 0)
        status = read_dep(reader, lane, step, err);
    reader->index++;
    reader->step_count++;
    return status;
}

static int read_round(struct reader *reader, uint32_t lane, uint64_t number, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = reader->schedule;
    int status = 0;

    reader->round.step_count = 0;
    schedule->ops->emit(schedule, lane / schedule->lane_count, lane % schedule->lane_count, number,
                        &reader->round);
    for (uint32_t i = 0; i < reader->round.step_count && status == 0; i++)
        status = read_step(reader, lane, &reader->round.step[i], err);
    if (reader->step_count > STEPS_MAX)
        return refuse(reader, "its programs are too long to be compared", err);
    return status;
}

static uint64_t steady_rounds(const struct tutti_schedule *schedule, uint32_t lane, uint64_t round,
                              uint64_t *period)
{
    if (schedule->ops->steady == NULL)
        return 0;
    return schedule->ops->steady(schedule, lane / schedule->lane_count, lane % schedule->lane_count,
                                 round, period);
}

/* One period of a run of rounds stands for all of it. */
static int read_run(struct reader *reader, uint32_t lane, uint64_t first, uint64_t count,
                    uint64_t period, struct tutti_err *err)
{
    uint64_t before = reader->index;
    uint64_t rest = count % period;
    uint64_t of_rest = 0;
    int status = put(reader, UINT64_MAX) < 0 || put(reader, period) < 0 || put(reader, count) < 0
                     ? tutti_nomem(err)
                     : 0;

    reader->run_word = reader->word_count - 1;
    reader->run_count++;

    for (uint64_t i = 0; i < period && status == 0; i++) {
        if (i == rest)
            of_rest = reader->index - before;
        status = read_round(reader, lane, first + i, err);
    }
    reader->index = before + (reader->index - before) * (count / period) + of_rest;
    return status;
}

static int read_lane(struct reader *reader, uint32_t lane, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = reader->schedule;
    uint64_t count = schedule->ops->round_count(schedule, lane / schedule->lane_count,
                                                lane % schedule->lane_count);
    int status = 0;

    reader->word_count = 0;
    reader->run_count = 0;
    reader->index = 0;
    reader->dep_lane = NONE;
    reader->out.first = reader->out.count;
    reader->in.first = reader->in.count;
    for (uint64_t round = 0; round < count && status == 0;) {
        uint64_t period = 1;
        uint64_t run = steady_rounds(schedule, lane, round, &period);

        assert(run <= count - round);
        if (run > 2 * period) {
            status = read_run(reader, lane, round, run, period, err);
            round += run;
        } else {
            status = read_round(reader, lane, round++, err);
        }
    }
    if (status == 0 && (reader->out.count > WIRES_MAX || reader->in.count > WIRES_MAX))
        return refuse(reader, "it has too many connections", err);
    return status;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static bool is_kind(const struct reader *reader, uint32_t kind)
{
    uint32_t first = reader->kind_first[kind];

    if (reader->kind_first[kind + 1] - first != reader->word_count)
        return false;
    /* Of no data there are no words, and perhaps no memory for any. */
    return reader->word_count == 0 || memcmp(reader->store + first, reader->words,
                                             reader->word_count * sizeof(*reader->words)) == 0;
}

/* The number of the program in reader->words. */
static int find_kind(struct reader *reader, uint32_t *ret, struct tutti_err *err)
{
    uint64_t hash = 0;
    uint32_t *entry;

    for (uint32_t i = 0; i < reader->word_count; i++) {
        hash = (hash ^ reader->words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    entry = &reader->table[hash % TABLE_SIZE];
    while (*entry > 0 && !is_kind(reader, *entry - 1))
        entry = &reader->table[++hash % TABLE_SIZE];
    if (*entry == 0) {
        uint64_t needed = (uint64_t)reader->store_count + reader->word_count;

        if (reader->kind_count == KINDS_MAX || needed > STORE_MAX)
            return refuse(reader, "its lanes run too many different programs", err);
        if (tutti_grow(&reader->store, &reader->store_capacity, needed, sizeof(*reader->store)) < 0)
            return tutti_nomem(err);
        if (reader->word_count > 0)
            memcpy(reader->store + reader->store_count, reader->words,
                   reader->word_count * sizeof(*reader->words));
        reader->store_count = (uint32_t)needed;
        reader->run_at[reader->kind_count] =
            reader->run_count == 1 ? reader->kind_first[reader->kind_count] + reader->run_word
                                   : NONE;
        *entry = ++reader->kind_count;
        reader->kind_first[reader->kind_count] = reader->store_count;
    }
    *ret = *entry - 1;
    return 0;
}

/* ---- wires ----------------------------------------------------------------------------------- */

/* Lists the wires into each lane in the order in which it first receives from them. reader->in has
 * the ranks; its stamps are used anew, with serial numbers beyond those of the reading. */
static int match_wires(struct reader *reader, struct tutti_err *err)
{
    const struct tutti_programs *programs = reader->programs;
    const struct tutti_schedule *schedule = reader->schedule;
    uint32_t *count = calloc((size_t)programs->lane_count + 1, sizeof(*count));
    bool matches = reader->in.count == reader->out.count;

    if (count == NULL)
        return tutti_nomem(err);
    for (uint32_t wire = 0; wire < programs->wire_count; wire++) {
        uint32_t peer = reader->out.peers[wire];

        programs->in_wire[wire] = NONE;
        programs->out_lane[wire] = peer * schedule->lane_count; /* and the lane, below */
    }
    /* Wires by receiver, in a scratch order: in_wire holds ranks' places until they are found. */
    for (uint32_t lane = 0; lane < programs->lane_count && matches; lane++) {
        for (uint32_t i = programs->out_first[lane]; i < programs->out_first[lane + 1]; i++) {
            uint32_t to = programs->out_lane[i] += lane % schedule->lane_count;
            uint32_t first = programs->in_first[to];
            uint32_t many = programs->in_first[to + 1] - first;
            uint32_t rank = lane / schedule->lane_count;
            uint32_t at = count[to]; /* senders mostly come in the order of being received from */

            for (uint32_t tried = 0; tried < many && reader->in.peers[first + at % many] != rank;
                 tried++)
                at++;
            if (many == 0 || reader->in.peers[first + at % many] != rank ||
                programs->in_wire[first + at % many] != NONE) {
                matches = false;
                break;
            }
            programs->in_wire[first + at % many] = i;
            count[to] = at % many + 1;
        }
    }
    free(count);
    return matches ? 0 : refuse(reader, "its SENDs and RECVs do not match", err);
}

static int take_memory(struct reader *reader, struct tutti_err *err)
{
    struct tutti_programs *programs = reader->programs;
    size_t lanes = (size_t)programs->lane_count + 1;

    programs->kind = calloc(lanes, sizeof(*programs->kind));
    programs->dep_lane = calloc(lanes, sizeof(*programs->dep_lane));
    programs->out_first = calloc(lanes, sizeof(*programs->out_first));
    programs->in_first = calloc(lanes, sizeof(*programs->in_first));
    reader->out.stamp = calloc(reader->schedule->rank_count, sizeof(*reader->out.stamp));
    reader->in.stamp = calloc(reader->schedule->rank_count, sizeof(*reader->in.stamp));
    if (programs->kind == NULL || programs->dep_lane == NULL || programs->out_first == NULL ||
        programs->in_first == NULL || reader->out.stamp == NULL || reader->in.stamp == NULL)
        return tutti_nomem(err);
    return 0;
}

static int keep_kinds(struct reader *reader, struct tutti_err *err)
{
    struct tutti_kinds *kinds = &reader->programs->kinds;
    size_t count = reader->kind_count;

    kinds->count = reader->kind_count;
    kinds->first = malloc((count + 1) * sizeof(*kinds->first));
    kinds->run_at = malloc((count + 1) * sizeof(*kinds->run_at));
    if (kinds->first == NULL || kinds->run_at == NULL)
        return tutti_nomem(err);
    memcpy(kinds->first, reader->kind_first, (count + 1) * sizeof(*kinds->first));
    memcpy(kinds->run_at, reader->run_at, count * sizeof(*kinds->run_at));
    kinds->words = reader->store;
    reader->store = NULL;
    return 0;
}

static int read_all(struct reader *reader, struct tutti_err *err)
{
    struct tutti_programs *programs = reader->programs;
    int status = take_memory(reader, err);

    for (uint32_t lane = 0; lane < programs->lane_count && status == 0; lane++) {
        status = read_lane(reader, lane, err);
        if (status == 0)
            status = find_kind(reader, &programs->kind[lane], err);
        programs->dep_lane[lane] = reader->dep_lane;
        programs->out_first[lane + 1] = reader->out.count;
        programs->in_first[lane + 1] = reader->in.count;
    }
    if (status == 0)
        status = keep_kinds(reader, err);
    if (status < 0)
        return status;
    programs->wire_count = reader->out.count;
    programs->out_lane = calloc((size_t)programs->wire_count + 1, sizeof(*programs->out_lane));
    programs->in_wire =
        calloc((size_t)reader->in.count + programs->wire_count + 1, sizeof(*programs->in_wire));
    if (programs->out_lane == NULL || programs->in_wire == NULL)
        return tutti_nomem(err);
    return match_wires(reader, err);
}

/* Rounds that would be read, from those of the first two ranks: so that nothing long is begun. */
static bool is_too_long(const struct tutti_schedule *schedule)
{
    uint64_t rounds = 0;

    for (uint32_t lane = 0; lane < 2 * schedule->lane_count; lane++) {
        uint32_t rank = lane / schedule->lane_count;
        uint64_t count;

        if (rank >= schedule->rank_count)
            break;
        count = schedule->ops->round_count(schedule, rank, lane % schedule->lane_count);
        for (uint64_t round = 0; round < count && rounds <= STEPS_MAX;) {
            uint64_t period = 1;
            uint64_t run = steady_rounds(schedule, lane, round, &period);

            rounds += run > 2 * period ? period : 1;
            round += run > 2 * period ? run : 1;
        }
    }
    return rounds > STEPS_MAX / schedule->rank_count; /* of two ranks: two steps a round and more */
}

int tutti_programs_read(const struct tutti_schedule *schedule, struct tutti_programs *ret,
                        struct tutti_err *err)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    uint64_t lanes = (uint64_t)schedule->rank_count * schedule->lane_count;
    int status = 0;

    *ret = (struct tutti_programs){.lane_count = (uint32_t)lanes};
    if (reader == NULL)
        return tutti_nomem(err);
    reader->schedule = schedule;
    reader->programs = ret;
    if (lanes > LANES_MAX)
        status = refuse(reader, "it has too many lanes to be compared", err);
    else if (is_too_long(schedule))
        status = refuse(reader, "its programs are too long to be compared", err);
    else
        status = read_all(reader, err);
    free(reader->out.stamp);
    free(reader->out.peers);
    free(reader->in.stamp);
    free(reader->in.peers);
    free(reader->words);
    free(reader->store);
    free(reader);
    if (status < 0)
        tutti_programs_done(ret);
    return status;
}

void tutti_programs_done(struct tutti_programs *programs)
{
    free(programs->kind);
    free(programs->dep_lane);
    free(programs->out_first);
    free(programs->out_lane);
    free(programs->in_first);
    free(programs->in_wire);
    tutti_kinds_done(&programs->kinds);
    *programs = (struct tutti_programs){.lane_count = 0};
}

void tutti_kinds_done(struct tutti_kinds *kinds)
{
    free(kinds->first);
    free(kinds->words);
    free(kinds->run_at);
    *kinds = (struct tutti_kinds){.count = 0};
}

static bool are_same(const uint32_t *a, const uint32_t *b, size_t count)
{
    return memcmp(a, b, count * sizeof(*a)) == 0;
}

bool tutti_programs_match(const struct tutti_programs *a, const struct tutti_programs *b)
{
    size_t lanes = a->lane_count;
    size_t wires = a->wire_count;

    return a->lane_count == b->lane_count && a->wire_count == b->wire_count &&
           are_same(a->kind, b->kind, lanes) && are_same(a->dep_lane, b->dep_lane, lanes) &&
           are_same(a->out_first, b->out_first, lanes + 1) &&
           are_same(a->out_lane, b->out_lane, wires) &&
           are_same(a->in_first, b->in_first, lanes + 1) && are_same(a->in_wire, b->in_wire, wires);
}

bool tutti_kinds_match(const struct tutti_kinds *a, const struct tutti_kinds *b)
{
    if (a->count != b->count || !are_same(a->first, b->first, (size_t)a->count + 1) ||
        !are_same(a->run_at, b->run_at, a->count))
        return false;
    for (uint32_t kind = 0; kind < a->count; kind++) {
        for (uint32_t i = a->first[kind]; i < a->first[kind + 1]; i++) {
            if (a->words[i] != b->words[i] && i != a->run_at[kind])
                return false;
        }
    }
    return true;
}
