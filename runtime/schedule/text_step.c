/* Reads one step as tutti_step_text writes it; the grammar stands in text.c. */
#include <ctype.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/text.h"
#include "runtime/status.h"

static void copy_word(struct tutti_word word, char *buf, size_t buf_bytes)
{
    size_t bytes = word.bytes < buf_bytes ? word.bytes : buf_bytes - 1;

    memcpy(buf, word.text, bytes);
    buf[bytes] = '\0';
}

/* A word that ends what a step says of itself. */
static bool is_flag(struct tutti_word word)
{
    return tutti_word_is(word, "fuse") || tutti_word_is(word, "last") ||
           tutti_word_is(word, "after");
}

int tutti_line_place(struct tutti_line *line, uint8_t *ret_buf, uint64_t *ret_offset,
                     struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    struct tutti_line rest;
    const char *plus;
    int status = tutti_line_need(line, "a place such as out+64", &word, err);

    if (status < 0)
        return status;
    plus = memchr(word.text, '+', word.bytes);
    for (uint8_t b = TUTTI_BUF_NONE; plus != NULL && b < TUTTI_BUF_COUNT; b++) {
        if (!tutti_word_is((struct tutti_word){word.text, (size_t)(plus - word.text)},
                           tutti_buf_name(b)))
            continue;
        rest = (struct tutti_line){plus + 1, word.text + word.bytes, line->unit};
        *ret_buf = b;
        return tutti_line_number(&rest, "an offset", UINT64_MAX, ret_offset, err);
    }
    return tutti_fail(
        err, TUTTI_EINVAL,
        "unknown place '%.*s' (in+0, out+64, scratch+128, state+0; none+0 for no bytes)",
        TUTTI_WORD_SHOW(word));
}

/* "128 B", or "1 C": then `bytes` holds chunks, as offsets do. */
static int read_bytes(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    const char *what = line->unit[0] == 'C' ? "a length in chunks" : "a length in bytes";
    int status = tutti_line_number(line, what, UINT64_MAX, &step->bytes, err);

    return status < 0 ? status : tutti_line_expect(line, line->unit, err);
}

/* "to 3" */
static int read_peer(struct tutti_line *line, const char *preposition, uint32_t *ret,
                     struct tutti_err *err)
{
    int status = tutti_line_expect(line, preposition, err);

    return status < 0 ? status : tutti_line_number32(line, "a rank", ret, err);
}

static int read_send(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    int status = tutti_line_place(line, &step->src_buf, &step->src_offset, err);

    if (status == 0)
        status = read_bytes(line, step, err);
    return status < 0 ? status : read_peer(line, "to", &step->peer, err);
}

static int read_recv(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    int status = tutti_line_place(line, &step->dst_buf, &step->dst_offset, err);

    if (status == 0)
        status = read_bytes(line, step, err);
    return status < 0 ? status : read_peer(line, "from", &step->peer, err);
}

/* "half max" and "over 4", those that there are: what a step says beside the contract. */
static int read_reduction(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_line rest = *line;
    struct tutti_word word = {NULL, 0};
    enum tutti_dtype dtype = TUTTI_FLOAT32;
    enum tutti_op op = TUTTI_SUM;
    char name[16];
    int status = 0;

    if (tutti_line_word(&rest, &word) && !tutti_word_is(word, "over") && !is_flag(word)) {
        copy_word(word, name, sizeof(name));
        status = tutti_dtype_find(name, &dtype, err);
        if (status == 0)
            status = tutti_line_need(&rest, "an operator", &word, err);
        copy_word(word, name, sizeof(name));
        if (status == 0)
            status = tutti_op_find(name, &op, err);
        if (status < 0)
            return status;
        step->reduction = tutti_reduction_code(dtype, op);
        *line = rest;
    }
    rest = *line;
    if (!tutti_line_word(&rest, &word) || !tutti_word_is(word, "over"))
        return 0;
    *line = rest;
    return tutti_line_number32(line, "what avg divides by", &step->peer, err);
}

static int read_reduce(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    int status = tutti_line_place(line, &step->dst_buf, &step->dst_offset, err);

    if (status == 0)
        status = tutti_line_expect(line, "=", err);
    if (status == 0)
        status = tutti_line_place(line, &step->acc_buf, &step->acc_offset, err);
    if (status == 0)
        status = tutti_line_expect(line, "op", err);
    if (status == 0)
        status = tutti_line_place(line, &step->src_buf, &step->src_offset, err);
    if (status == 0)
        status = read_bytes(line, step, err);
    return status < 0 ? status : read_reduction(line, step, err);
}

static int read_copy(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    int status = tutti_line_place(line, &step->dst_buf, &step->dst_offset, err);

    if (status == 0)
        status = tutti_line_expect(line, "=", err);
    if (status == 0)
        status = tutti_line_place(line, &step->src_buf, &step->src_offset, err);
    if (status == 0)
        status = read_bytes(line, step, err);
    return status < 0 ? status : read_reduction(line, step, err);
}

int tutti_line_time(struct tutti_line *line, int64_t *ret_ps, struct tutti_err *err)
{
    struct tutti_line rest = *line;
    struct tutti_word word = {NULL, 0};
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status = tutti_line_need(&rest, "a time or a number of flops", &word, err);

    if (status < 0)
        return status;
    if (isdigit((unsigned char)word.text[word.bytes - 1]))
        return 1;
    if (word.bytes >= sizeof(time))
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not a time (such as 1.5us)",
                          TUTTI_WORD_SHOW(word));
    copy_word(word, time, sizeof(time));
    *line = rest;
    return tutti_read_time(time, ret_ps, err);
}

/* "work 3", "work 3 scratch+64", or nothing */
static int read_work(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_line rest = *line;
    struct tutti_word word;
    uint64_t index = 0;
    int status;

    if (!tutti_line_word(&rest, &word) || !tutti_word_is(word, "work"))
        return 0;
    *line = rest;
    status = tutti_line_number(line, "the number of an entry", UINT32_MAX - 1, &index, err);
    step->peer = (uint32_t)index + 1;
    rest = *line;
    if (status < 0 || !tutti_line_word(&rest, &word) || is_flag(word))
        return status;
    return tutti_line_place(line, &step->src_buf, &step->src_offset, err);
}

/* "1.5us", "12 flops", or one after the other; then its work. */
static int read_compute(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_line rest;
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_time(line, &step->duration_ps, err);

    if (status < 0)
        return status;
    rest = *line;
    if (status == 1 || (tutti_line_word(&rest, &word) && isdigit((unsigned char)word.text[0]))) {
        status = tutti_line_number(line, "a number of flops", UINT64_MAX, &step->flops, err);
        if (status == 0)
            status = tutti_line_expect(line, "flops", err);
        if (status < 0)
            return status;
    }
    return read_work(line, step, err);
}

/* "0 in+0 out+0 scratch+64", or "0 axis 1 in+0 ..." */
static int read_call(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    uint8_t buf = TUTTI_BUF_NONE;
    struct tutti_line rest;
    struct tutti_word word;
    uint64_t axis = 0;
    int status = tutti_line_number32(line, "the number of a callee", &step->peer, err);

    rest = *line;
    if (status == 0 && tutti_line_word(&rest, &word) && tutti_word_is(word, "axis")) {
        *line = rest;
        status = tutti_line_number(line, "the number of an axis", TUTTI_AXES_MAX, &axis, err);
        step->axis = (uint8_t)axis;
    }
    if (status == 0)
        status = tutti_line_place(line, &step->src_buf, &step->src_offset, err);
    if (status == 0)
        status = tutti_line_place(line, &step->dst_buf, &step->dst_offset, err);
    if (status == 0)
        status = tutti_line_place(line, &buf, &step->acc_offset, err);
    if (status == 0 && buf != TUTTI_BUF_SCRATCH)
        return tutti_fail(err, TUTTI_EINVAL, "the callee's scratch lies in '%s' (scratch)",
                          tutti_buf_name(buf));
    return status;
}

/* "lane 1 step 5" */
static int read_dependency(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    uint64_t lane = 0;
    int status = tutti_line_expect(line, "lane", err);

    if (status == 0)
        status = tutti_line_number(line, "a lane", TUTTI_LANES_MAX - 1, &lane, err);
    if (status == 0)
        status = tutti_line_expect(line, "step", err);
    if (status == 0)
        status = tutti_line_number32(line, "a step", &step->dep_step, err);
    step->dep_lane = (uint16_t)lane;
    return status;
}

/* "fuse", "last", "after lane 1 step 5", in this order, each once. */
static int read_flags(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err)
{
    static const struct {
        const char *word;
        uint8_t flag;
    } flags[] = {{"fuse", TUTTI_STEP_FUSE}, {"last", TUTTI_STEP_LAST}, {"after", TUTTI_STEP_DEP}};
    struct tutti_word word;
    size_t next = 0;

    while (tutti_line_word(line, &word)) {
        while (next < 3 && !tutti_word_is(word, flags[next].word))
            next++;
        if (next == 3)
            return tutti_fail(err, TUTTI_EINVAL,
                              "unexpected '%.*s' (fuse, last, after lane N step N, in this order)",
                              TUTTI_WORD_SHOW(word));
        step->flags |= flags[next++].flag;
        if (next == 3)
            return read_dependency(line, step, err);
    }
    return 0;
}

int tutti_line_step(struct tutti_line *line, struct tutti_word kind, struct tutti_step *ret,
                    struct tutti_err *err)
{
    static const struct {
        const char *word;
        uint8_t kind;
        int (*read)(struct tutti_line *line, struct tutti_step *step, struct tutti_err *err);
    } kinds[] = {
        {"SEND", TUTTI_SEND, read_send},          {"RECV", TUTTI_RECV, read_recv},
        {"REDUCE", TUTTI_REDUCE, read_reduce},    {"COPY", TUTTI_COPY, read_copy},
        {"COMPUTE", TUTTI_COMPUTE, read_compute}, {"CALL", TUTTI_CALL, read_call},
    };
    struct tutti_step step = {0};
    int status;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!tutti_word_is(kind, kinds[i].word))
            continue;
        step.kind = kinds[i].kind;
        status = kinds[i].read(line, &step, err);
        if (status == 0)
            status = read_flags(line, &step, err);
        if (status == 0)
            status = tutti_line_end(line, err);
        if (status == 0)
            *ret = step;
        return status;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown step '%.*s' (SEND, RECV, REDUCE, COPY, COMPUTE or CALL; or "
                      "rank N lane N, or callee NAME)",
                      TUTTI_WORD_SHOW(kind));
}
