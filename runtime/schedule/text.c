/* Our own text form of a schedule: reading it. (text_print.c writes it.)
 *
 * One statement a line; words are separated by blanks; # begins a comment. First the head, in any
 * order but for its first line:
 *
 *   schedule NAME
 *   contract COLLECTIVE DATATYPE OPERATOR count N [root R]   contract allreduce float sum count 64
 *   ranks N
 *   lanes N                  (1) the same for every rank; a lane may be empty
 *   slots N                  (8) messages a connection (from, to, lane) holds before SEND waits
 *   scratch N B              (0) bytes per rank
 *   state N B                (0) bytes per rank that are kept from play to play
 *   in N B / out N B         of the contract `custom` only: the others fix them
 *   chunks N                 the elements of `count` are N equal chunks: then all offsets and
 *                            lengths below, and scratch, in and out above, count chunks, and C
 *                            stands in the place of B. Such a schedule is for any size that can be
 *                            cut like that; it has no callees
 *   axis NAME first N width N stride N size N period N repeat N
 *                            groups of ranks; axes are numbered from 1, 0 is all ranks
 *   work NAME KIND [1.5us] [N flops] [N moved]
 *                            what a COMPUTE does, numbered from 0; then what it reads and writes:
 *     reads state+0 64 B [whole N]     reduced over the rank's group of axis N
 *     writes scratch+0 64 B
 *   atomic state+0 64 B      updated in any order, each update whole
 *
 * Then the programs, lane by lane; a lane that is named again goes on where it stopped:
 *
 *   rank R lane L
 *     SEND out+64 128 B to 3
 *     RECV scratch+0 128 B from 2 fuse
 *     REDUCE out+0 = in+0 op scratch+0 128 B last
 *     COPY out+0 = in+0 128 B last
 *     REDUCE out+0 = in+0 op scratch+0 128 B half avg over 4 last
 *                                      type and operator, and divisor, of its own
 *     COMPUTE 1.5us  or  COMPUTE 1000000 flops  (or both, the time first)
 *     COMPUTE 1.5us work 3 scratch+64  entry 3, its regions of scratch 64 bytes further on
 *     CALL 0 in+0 out+0 scratch+0      callee number 0: where its in, out and scratch begin
 *     CALL 0 axis 1 in+0 out+0 scratch+0
 *     SEND out+2 1 C to 3              with `chunks`: the third chunk of out
 *
 * Any step may end with "after lane L step S": it starts only when that step has completed. A step
 * of 0 bytes may name the place none+0. A rank with smaller buffers than the head says has a line
 * behind it: sizes R in N out N scratch N state N. Callees follow, numbered from 0, each with a
 * head (`ranks` are the caller's where it says nothing) and programs of its own:
 *
 *   callee NAME
 *
 * What the steps mean stands in runtime/schedule.h. Time and memory grow with the text alone,
 * whatever numbers stand in it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/schedule/text.h"
#include "runtime/status.h"

/* An arena each: what makes a callee take more memory than its text. */
enum { CALLEES_MAX = 4096 };

enum {
    CONTRACT = 1,
    RANKS = 2,
    LANES = 4,
    SLOTS = 8,
    SCRATCH = 16,
    IN = 32,
    OUT = 64,
    CHUNKS = 128,
    STATE = 256
};

struct reader {
    struct tutti_line line;
    struct tutti_lines lines;
    struct tutti_builder *caller; /* while callees are read */
    uint32_t caller_ranks;
    uint32_t callee_count;
    struct tutti_builder *builder; /* of the part that is read; NULL while its head is */
    struct tutti_schedule_desc desc;
    char *name;                       /* what desc.name points to; NULL before the first line */
    uint64_t name_line;               /* where this part began */
    struct tutti_text_tables *tables; /* of the head; NULL before the first line */
    unsigned seen;                    /* statements of the head */
    unsigned in_chunks;               /* those of them that are sizes in chunks */
    uint64_t chunk_bytes;             /* once there is a builder; 0: not in chunks */
    bool in_lane;
    uint32_t rank;
    uint32_t lane;
};

/* ---- the head ------------------------------------------------------------------------------- */

/* The next word, zero-terminated in `buf`: for the readers of names. */
static int need_name(struct reader *r, const char *what, char *buf, size_t buf_bytes,
                     struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, what, &word, err);

    if (status < 0)
        return status;
    if (word.bytes >= buf_bytes)
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not %s", TUTTI_WORD_SHOW(word), what);
    memcpy(buf, word.text, word.bytes);
    buf[word.bytes] = '\0';
    return 0;
}

static int read_contract(struct reader *r, struct tutti_err *err)
{
    struct tutti_contract *c = &r->desc.contract;
    struct tutti_word word;
    char name[32];
    int status = need_name(r, "a collective", name, sizeof(name), err);

    if (status == 0)
        status = tutti_collective_find(name, &c->collective, err);
    if (status == 0)
        status = need_name(r, "a data type", name, sizeof(name), err);
    if (status == 0)
        status = tutti_dtype_find(name, &c->dtype, err);
    if (status == 0)
        status = need_name(r, "an operator", name, sizeof(name), err);
    if (status == 0)
        status = tutti_op_find(name, &c->op, err);
    if (status == 0)
        status = tutti_line_expect(&r->line, "count", err);
    if (status == 0)
        status = tutti_line_number(&r->line, "a count of elements", UINT64_MAX, &c->count, err);
    if (status < 0 || !tutti_line_word(&r->line, &word))
        return status;
    if (!tutti_word_is(word, "root"))
        return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (root or the end of the line)",
                          TUTTI_WORD_SHOW(word));
    return tutti_line_number32(&r->line, "a rank", &c->root, err);
}

static int read_count(struct reader *r, const char *what, uint32_t *ret, struct tutti_err *err)
{
    int status = tutti_line_number32(&r->line, "a count", ret, err);

    if (status == 0 && *ret == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'0' %s (1 or more)", what);
    return status;
}

/* "96 B" or "3 C"; which of them it has to be is known once the head is complete. */
static int read_size(struct reader *r, unsigned statement, uint64_t *ret, struct tutti_err *err)
{
    struct tutti_line rest;
    struct tutti_word unit;
    int status = tutti_line_number(&r->line, "a size in bytes", INT64_MAX, ret, err);

    if (status < 0)
        return status;
    rest = r->line;
    if (!tutti_line_word(&rest, &unit) || !tutti_word_is(unit, "C"))
        return tutti_line_expect(&r->line, "B", err);
    r->line = rest;
    r->in_chunks |= statement;
    return 0;
}

static int read_chunks(struct reader *r, struct tutti_err *err)
{
    int status = tutti_line_number(&r->line, "a count", UINT64_MAX, &r->desc.chunk_count, err);

    if (status == 0 && r->desc.chunk_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'0' chunks (1 or more)");
    return status;
}

/* The value of one line of the head. */
static int read_head_value(struct reader *r, unsigned statement, struct tutti_err *err)
{
    switch (statement) {
    case CONTRACT:
        return read_contract(r, err);
    case RANKS:
        return read_count(r, "ranks", &r->desc.rank_count, err);
    case LANES:
        return read_count(r, "lanes", &r->desc.lane_count, err);
    case SLOTS:
        return read_count(r, "slots", &r->desc.slot_count, err);
    case SCRATCH:
        return read_size(r, statement, &r->desc.scratch_bytes, err);
    case IN:
        return read_size(r, statement, &r->desc.in_bytes, err);
    case OUT:
        return read_size(r, statement, &r->desc.out_bytes, err);
    case STATE:
        return read_size(r, statement, &r->desc.state_bytes, err);
    default:
        return read_chunks(r, err);
    }
}

/* 0 if the word opens a line of the head, which is then read; 1 if it is another word. */
static int read_head(struct reader *r, struct tutti_word word, struct tutti_err *err)
{
    static const char *const names[] = {"contract", "ranks", "lanes",  "slots", "scratch",
                                        "in",       "out",   "chunks", "state"};
    int status;

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!tutti_word_is(word, names[i]))
            continue;
        if (r->builder != NULL)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' after the first lane (before it)", names[i]);
        if ((r->seen & 1u << i) != 0)
            return tutti_fail(err, TUTTI_EINVAL, "a second '%s' (one)", names[i]);
        r->seen |= 1u << i;
        status = read_head_value(r, 1u << i, err);
        return status < 0 ? status : tutti_line_end(&r->line, err);
    }
    status = tutti_text_tables_read(r->tables, &r->line, word, err);
    if (status == 0 && r->builder != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' after the first lane (before it)",
                          TUTTI_WORD_SHOW(word));
    return status;
}

/* A number of chunks becomes one of bytes. */
static int to_bytes(uint64_t chunk_bytes, uint64_t *value, struct tutti_err *err)
{
    uint64_t chunks = *value;

    if (__builtin_mul_overflow(chunks, chunk_bytes, value))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%" PRIu64 "' chunks of %" PRIu64 " bytes (fewer than 2^64 bytes)",
                          chunks, chunk_bytes);
    return 0;
}

/* The sizes of the head in bytes, and how many a chunk has. */
static int end_chunks(struct reader *r, struct tutti_err *err)
{
    static const char *const names[] = {"scratch", "in", "out", "state"};
    static const unsigned statements[] = {SCRATCH, IN, OUT, STATE};
    struct tutti_schedule_desc *desc = &r->desc;
    uint64_t *const sizes[] = {&desc->scratch_bytes, &desc->in_bytes, &desc->out_bytes,
                               &desc->state_bytes};
    uint64_t count = desc->contract.count;
    bool chunks = desc->chunk_count > 0;
    int status = 0;

    r->chunk_bytes = 0;
    if (chunks && count % desc->chunk_count == 0)
        r->chunk_bytes = count / desc->chunk_count;
    if (__builtin_mul_overflow(r->chunk_bytes, (uint64_t)tutti_dtype_bytes(desc->contract.dtype),
                               &r->chunk_bytes))
        return tutti_fail(err, TUTTI_EINVAL, "a count of '%" PRIu64 "' elements is too large",
                          count);
    for (int i = 0; i < 4 && status == 0; i++) {
        if ((r->seen & statements[i]) != 0 && chunks != ((r->in_chunks & statements[i]) != 0))
            return tutti_fail(err, TUTTI_EINVAL, "the unit of '%s' (%s)", names[i],
                              chunks ? "C, as there are 'chunks'" : "B, or 'chunks N' in the head");
        if (chunks)
            status = to_bytes(r->chunk_bytes, sizes[i], err);
    }
    return status;
}

/* The head is complete: from here on there is a builder. Its errors belong to the whole head. */
static int end_head(struct reader *r, struct tutti_err *err)
{
    int status = 0;

    if (r->builder != NULL)
        return 0;
    if ((r->seen & CONTRACT) == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "no contract (such as: contract allreduce float sum count 64)");
    else if ((r->seen & RANKS) == 0 && r->caller == NULL)
        status = tutti_fail(err, TUTTI_EINVAL, "no number of ranks (such as: ranks 4)");
    if (status == 0)
        status = end_chunks(r, err);
    if (status == 0)
        status = tutti_text_tables_into(r->tables, &r->desc, err);
    if (status == 0)
        status = tutti_builder_new(&r->desc, &r->builder, err);
    if (status < 0)
        r->lines.number = r->name_line;
    return status;
}

/* ---- parts: the schedule, then its callees --------------------------------------------------- */

static int begin_part(struct reader *r, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a name", &word, err);

    if (status < 0)
        return status;
    if (memchr(word.text, '\0', word.bytes) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "bad schedule name '%.*s' (printable)",
                          TUTTI_WORD_SHOW(word));
    free(r->name);
    tutti_text_tables_free(r->tables);
    r->name = malloc(word.bytes + 1);
    r->tables = tutti_text_tables_new();
    if (r->name == NULL || r->tables == NULL)
        return tutti_nomem(err);
    memcpy(r->name, word.text, word.bytes);
    r->name[word.bytes] = '\0';
    r->name_line = r->lines.number;
    r->seen = 0;
    r->in_chunks = 0;
    r->in_lane = false;
    r->desc = (struct tutti_schedule_desc){
        .name = r->name, .rank_count = r->caller_ranks, .lane_count = 1};
    return tutti_line_end(&r->line, err);
}

/* The part that was read becomes the caller, or a callee of it. */
static int end_part(struct reader *r, struct tutti_err *err)
{
    struct tutti_schedule *callee = NULL;
    uint32_t index = 0;
    int status = end_head(r, err);

    if (status < 0)
        return status;
    if (r->caller == NULL) {
        r->caller = r->builder;
        r->caller_ranks = r->desc.rank_count;
        r->builder = NULL;
        return 0;
    }
    status = tutti_builder_finish(r->builder, &callee, err);
    r->builder = NULL;
    if (status == 0)
        status = tutti_builder_add_callee(r->caller, callee, &index, err);
    if (status < 0)
        tutti_schedule_free(callee);
    return status;
}

static int read_callee(struct reader *r, struct tutti_err *err)
{
    int status = end_part(r, err);

    if (status == 0 && r->callee_count++ == CALLEES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a callee too many (up to %d)", CALLEES_MAX);
    return status < 0 ? status : begin_part(r, err);
}

/* ---- programs -------------------------------------------------------------------------------- */

static int read_lane(struct reader *r, struct tutti_err *err)
{
    int status = end_head(r, err);

    if (status == 0)
        status = tutti_line_number32(&r->line, "a rank", &r->rank, err);
    if (status == 0)
        status = tutti_line_expect(&r->line, "lane", err);
    if (status == 0)
        status = tutti_line_number32(&r->line, "a lane", &r->lane, err);
    if (status == 0)
        status = tutti_line_end(&r->line, err);
    if (status < 0)
        return status;
    if (r->rank >= r->desc.rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "no rank '%u' (0 to %u)", r->rank,
                          r->desc.rank_count - 1);
    if (r->lane >= r->desc.lane_count)
        return tutti_fail(err, TUTTI_EINVAL, "no lane '%u' (0 to %u)", r->lane,
                          r->desc.lane_count - 1);
    r->in_lane = true;
    return 0;
}

/* A step read in chunks, in bytes. */
static int step_to_bytes(uint64_t chunk_bytes, struct tutti_step *step, struct tutti_err *err)
{
    int status = 0;

    if (chunk_bytes == 0 || step->kind == TUTTI_COMPUTE)
        return 0;
    status = to_bytes(chunk_bytes, &step->bytes, err);
    if (status == 0)
        status = to_bytes(chunk_bytes, &step->dst_offset, err);
    if (status == 0)
        status = to_bytes(chunk_bytes, &step->src_offset, err);
    return status < 0 ? status : to_bytes(chunk_bytes, &step->acc_offset, err);
}

/* "sizes 3 in 0 out 0 scratch 64 state 128": bytes */
static int read_sizes(struct reader *r, struct tutti_err *err)
{
    struct tutti_buf_sizes sizes = {0};
    const struct {
        const char *word;
        uint64_t *value;
    } parts[] = {{"in", &sizes.in_bytes},
                 {"out", &sizes.out_bytes},
                 {"scratch", &sizes.scratch_bytes},
                 {"state", &sizes.state_bytes}};
    uint32_t rank = 0;
    int status = end_head(r, err);

    if (status == 0)
        status = tutti_line_number32(&r->line, "a rank", &rank, err);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && status == 0; i++) {
        status = tutti_line_expect(&r->line, parts[i].word, err);
        if (status == 0)
            status = tutti_line_number(&r->line, "a size in bytes", INT64_MAX, parts[i].value, err);
    }
    if (status == 0)
        status = tutti_line_end(&r->line, err);
    return status < 0 ? status : tutti_builder_set_sizes(r->builder, rank, &sizes, err);
}

static int read_step(struct reader *r, struct tutti_word kind, struct tutti_err *err)
{
    struct tutti_step step;
    int status;

    r->line.unit = r->builder != NULL && r->chunk_bytes > 0 ? "C" : "B";
    status = tutti_line_step(&r->line, kind, &step, err);
    if (status == 0)
        status = step_to_bytes(r->builder != NULL ? r->chunk_bytes : 0, &step, err);

    if (status < 0)
        return status;
    if (!r->in_lane)
        return tutti_fail(err, TUTTI_EINVAL, "a step outside any lane ('rank N lane N' before it)");
    return tutti_builder_add(r->builder, r->rank, r->lane, &step, err);
}

static int read_line(struct reader *r, struct tutti_err *err)
{
    struct tutti_word word;
    int status;

    if (!tutti_line_word(&r->line, &word))
        return 0;
    if (r->name == NULL) {
        if (!tutti_word_is(word, "schedule"))
            return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' ('schedule NAME' comes first)",
                              TUTTI_WORD_SHOW(word));
        return begin_part(r, err);
    }
    if (tutti_word_is(word, "rank"))
        return read_lane(r, err);
    if (tutti_word_is(word, "callee"))
        return read_callee(r, err);
    if (tutti_word_is(word, "sizes"))
        return read_sizes(r, err);
    if (tutti_word_is(word, "schedule"))
        return tutti_fail(err, TUTTI_EINVAL, "a second 'schedule' (one; others are callees)");
    status = read_head(r, word, err);
    return status > 0 ? read_step(r, word, err) : status;
}

static int read_lines(struct reader *r, const char *text, size_t bytes, struct tutti_err *err)
{
    int status = tutti_lines_open(&r->lines, text, bytes, err);

    while (status == 0 && tutti_lines_next(&r->lines, &r->line)) {
        r->line.unit = "B";
        status = read_line(r, err);
    }
    if (status == 0 && r->name == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no schedule ('schedule NAME' comes first)");
    return status < 0 ? status : end_part(r, err);
}

int tutti_schedule_parse(const char *name, const char *text, size_t bytes,
                         struct tutti_schedule **ret, struct tutti_err *err)
{
    struct reader r = {.lines = {.number = 0}};
    int status = read_lines(&r, text, bytes, err);

    free(r.name);
    tutti_text_tables_free(r.tables);
    tutti_builder_free(r.builder);
    if (status < 0) {
        tutti_builder_free(r.caller);
        return tutti_wrap(err, status, "%s: line %" PRIu64, name, r.lines.number);
    }
    status = tutti_builder_finish(r.caller, ret, err);
    return status < 0 ? tutti_wrap(err, status, "%s", name) : 0;
}
