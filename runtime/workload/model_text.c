/* The text form of a model: reading it. (model_print.c writes it.)
 *
 * One statement a line; words are separated by blanks; # begins a comment. First the head, in any
 * order but for its first line; only that and one layer must be there:
 *
 *   model NAME
 *   summary TEXT             what it is, to the end of the line
 *   source TEXT              where its figures come from
 *   sample KIND [bytes N]    (row) image, sequence or row; bytes as the host passes it on
 *   sequence N               (1) tokens of a sample
 *   logits N                 (0) elements of the last layer's output
 *   examples N               (0) of its data set
 *   transformer [layers N] [hidden N] [heads N] [kv_heads N] [feed_forward N] [vocabulary N]
 *               [experts N] [active N] [gated] [tied]
 *
 * Then the layers in the order of the forward pass, each with its lines in any order:
 *
 *   layer NAME [repeat N] [transformer] [frozen]
 *                          transformer: one of the equal layers of one; frozen: no backward pass
 *     operation NAME KIND [ROWS x DEPTH x COLUMNS] [count N] [split SPLIT] [in N] [out N]
 *                                             [flops N] [kv N] [first]
 *     variable NAME elements N [rows N] [split SPLIT] [touched N] [kv N] [unreduced]
 *     saved [whole N] [whole_bytes N] [split N] [split_bytes N] [attention N]
 *           [attention_bytes N] [input N] [kv N]
 *
 * KIND: matmul, convolution, attention (these three have a shape), normalization, elementwise,
 * embedding, loss, other, ...; SPLIT: none, columns, rows, heads, vocab or experts. What they mean
 * stands in runtime/model.h. Without `in` and `out` a matmul reads and writes what its shape says,
 * others nothing; without `flops` a product does those of its shape. `first`: its input has no
 * gradient. For instance, a linear regression:
 *
 *   model line
 *   sample row bytes 8
 *   logits 1
 *   layer dense
 *     operation dense matmul 1 x 1 x 1 first
 *     variable weight elements 1
 *     variable bias elements 1
 *     saved whole 1 input 1
 *
 * Time and memory grow with the text alone, whatever numbers stand in it. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/model.h"
#include "runtime/schedule/text.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "runtime/workload/build.h"

/* Statements of the head, by bit. */
enum { SUMMARY, SOURCE, SAMPLE, SEQUENCE, LOGITS, EXAMPLES, TRANSFORMER, HEAD_COUNT };

struct reader {
    struct tutti_line line;
    struct tutti_lines lines;
    struct tutti_build build;
    struct tutti_workload *model;
    unsigned seen;
    bool has_saved; /* the layer that is read */
};

/* ---- words ----------------------------------------------------------------------------------- */

/* A copy of a piece of the text, in the arena. */
static int copy(struct reader *r, struct tutti_word word, const char **ret, struct tutti_err *err)
{
    char *text;

    if (memchr(word.text, '\0', word.bytes) != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "a byte of zero in a name or a text (none)");
    text = tutti_arena_take(r->build.arena, word.bytes + 1, 1);
    if (text == NULL)
        return tutti_nomem(err);
    memcpy(text, word.text, word.bytes);
    *ret = text;
    return 0;
}

static int read_name(struct reader *r, const char **ret, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a name", &word, err);

    return status < 0 ? status : copy(r, word, ret, err);
}

/* The rest of the line, without blanks around it. */
static int read_text(struct reader *r, const char **ret, struct tutti_err *err)
{
    struct tutti_word first = {NULL, 0};
    struct tutti_word last;
    int status = tutti_line_need(&r->line, "a text", &first, err);

    if (status < 0)
        return status;
    last = first;
    while (tutti_line_word(&r->line, &last))
        first.bytes = (size_t)(last.text + last.bytes - first.text);
    return copy(r, first, ret, err);
}

/* One of `count` names; a message with all of them otherwise. */
static int read_choice(struct reader *r, const char *what, const char *(*name)(unsigned index),
                       unsigned count, unsigned *ret, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    char all[160] = "";
    size_t used = 0;
    int status = tutti_line_need(&r->line, what, &word, err);

    if (status < 0)
        return status;
    for (unsigned i = 0; i < count; i++) {
        if (tutti_word_is(word, name(i))) {
            *ret = i;
            return 0;
        }
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? " or "
                                                  : ", ",
                                 name(i));
    }
    return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not %s (%s)", TUTTI_WORD_SHOW(word), what, all);
}

static const char *split_name(unsigned index)
{
    return tutti_split_name((enum tutti_split)index);
}

static const char *sample_name(unsigned index)
{
    return tutti_sample_name((enum tutti_sample_kind)index);
}

static const char *kind_name(unsigned index)
{
    return tutti_work_kind_name((enum tutti_work_kind)index);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A key of a line: "count 4"; of one of these three a value is read. */
struct key {
    const char *name;
    uint64_t min;
    uint64_t *number;
    uint32_t *number32;
    enum tutti_split *split;
    bool *flag; /* the key alone */
};

enum { KEYS_MAX = 10 };

static int read_value(struct reader *r, const struct key *key, struct tutti_err *err)
{
    uint64_t value = 0;
    unsigned split = 0;
    int status = 0;

    if (key->flag != NULL) {
        *key->flag = true;
        return 0;
    }
    if (key->split != NULL) {
        status = read_choice(r, "a split", split_name, TUTTI_SPLIT_COUNT, &split, err);
        *key->split = (enum tutti_split)split;
        return status;
    }
    status = tutti_line_number(&r->line, "a number",
                               key->number32 != NULL ? UINT32_MAX : UINT64_MAX, &value, err);
    if (status == 0 && value < key->min)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu64 "' as '%s' (%" PRIu64 " or more)", value,
                          key->name, key->min);
    if (status == 0 && key->number32 != NULL)
        *key->number32 = (uint32_t)value;
    else if (status == 0)
        *key->number = value;
    return status;
}

/* The keys of the line, in any order, each at most once; *ret_seen has a bit each. */
static int read_keys(struct reader *r, const struct key *keys, unsigned count, unsigned *ret_seen,
                     struct tutti_err *err)
{
    struct tutti_word word;
    char all[160] = "";
    size_t used = 0;
    int status = 0;

    for (unsigned i = 0; i < count; i++)
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s, ", keys[i].name);
    while (status == 0 && tutti_line_word(&r->line, &word)) {
        unsigned i = 0;

        while (i < count && !tutti_word_is(word, keys[i].name))
            i++;
        if (i == count)
            return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (%.*s or the end of the line)",
                              TUTTI_WORD_SHOW(word), (int)used - 2, all);
        if ((*ret_seen >> i & 1) != 0)
            return tutti_fail(err, TUTTI_EINVAL, "a second '%s' (one)", keys[i].name);
        *ret_seen |= 1u << i;
        status = read_value(r, &keys[i], err);
    }
    return status;
}

/* ---- the head -------------------------------------------------------------------------------- */

static int read_sample(struct reader *r, struct tutti_err *err)
{
    struct key keys[] = {{.name = "bytes", .number = &r->model->sample_bytes}};
    unsigned seen = 0;
    unsigned sample = 0;
    int status = read_choice(r, "a kind of sample", sample_name, TUTTI_SAMPLE_COUNT, &sample, err);

    r->model->sample = (enum tutti_sample_kind)sample;
    return status < 0 ? status : read_keys(r, keys, 1, &seen, err);
}

static int read_transformer(struct reader *r, struct tutti_err *err)
{
    struct tutti_transformer *t = &r->model->transformer;
    struct key keys[] = {
        {.name = "layers", .number32 = &t->layers},
        {.name = "hidden", .number32 = &t->hidden},
        {.name = "heads", .number32 = &t->heads},
        {.name = "kv_heads", .number32 = &t->kv_heads},
        {.name = "feed_forward", .number32 = &t->feed_forward},
        {.name = "vocabulary", .number32 = &t->vocabulary},
        {.name = "experts", .number32 = &t->experts},
        {.name = "active", .number32 = &t->active_experts},
        {.name = "gated", .flag = &t->gated},
        {.name = "tied", .flag = &t->tied},
    };
    unsigned seen = 0;
    int status = read_keys(r, keys, sizeof(keys) / sizeof(keys[0]), &seen, err);

    _Static_assert(sizeof(keys) / sizeof(keys[0]) <= KEYS_MAX, "their names fit into a message");
    if (status == 0 && t->active_experts > t->experts)
        return tutti_fail(err, TUTTI_EINVAL, "'%" PRIu32 "' active experts of %" PRIu32,
                          t->active_experts, t->experts);
    return status;
}

static int read_number(struct reader *r, uint64_t max, uint64_t *ret, struct tutti_err *err)
{
    int status = tutti_line_number(&r->line, "a number", max, ret, err);

    return status < 0 ? status : tutti_line_end(&r->line, err);
}

static int read_sequence(struct reader *r, struct tutti_err *err)
{
    uint64_t sequence = 0;
    int status = read_number(r, UINT32_MAX, &sequence, err);

    if (status == 0 && sequence == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'0' tokens of a sample (1 or more)");
    r->model->sequence = (uint32_t)sequence;
    return status;
}

static int read_head_value(struct reader *r, unsigned statement, struct tutti_err *err)
{
    switch (statement) {
    case SUMMARY:
        return read_text(r, &r->model->summary, err);
    case SOURCE:
        return read_text(r, &r->model->source, err);
    case SAMPLE:
        return read_sample(r, err);
    case SEQUENCE:
        return read_sequence(r, err);
    case LOGITS:
        return read_number(r, UINT64_MAX, &r->model->logits, err);
    case EXAMPLES:
        return read_number(r, UINT64_MAX, &r->model->examples, err);
    default:
        return read_transformer(r, err);
    }
}

/* 0 if the word opens a line of the head, which is then read; 1 if it is another word. */
static int read_head(struct reader *r, struct tutti_word word, struct tutti_err *err)
{
    static const char *const names[HEAD_COUNT] = {
        [SUMMARY] = "summary",        [SOURCE] = "source", [SAMPLE] = "sample",
        [SEQUENCE] = "sequence",      [LOGITS] = "logits", [EXAMPLES] = "examples",
        [TRANSFORMER] = "transformer"};

    for (unsigned i = 0; i < HEAD_COUNT; i++) {
        if (!tutti_word_is(word, names[i]))
            continue;
        if (r->build.layers.count > 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' after the first layer (before it)",
                              names[i]);
        if ((r->seen >> i & 1) != 0)
            return tutti_fail(err, TUTTI_EINVAL, "a second '%s' (one)", names[i]);
        r->seen |= 1u << i;
        return read_head_value(r, i, err);
    }
    return 1;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int read_layer(struct reader *r, struct tutti_err *err)
{
    struct tutti_layer layer = {.repeat = 1};
    struct key keys[] = {
        {.name = "repeat", .min = 1, .number32 = &layer.repeat},
        {.name = "transformer", .flag = &layer.is_transformer},
        {.name = "frozen", .flag = &layer.is_frozen},
    };
    unsigned seen = 0;
    int status = read_name(r, &layer.name, err);

    if (status == 0)
        status = read_keys(r, keys, sizeof(keys) / sizeof(keys[0]), &seen, err);
    if (status < 0)
        return status;
    tutti_build_layer(&r->build, layer.name, layer.repeat, 0);
    if (r->build.no_memory)
        return tutti_nomem(err);
    tutti_build_last(&r->build)->is_transformer = layer.is_transformer;
    tutti_build_last(&r->build)->is_frozen = layer.is_frozen;
    r->has_saved = false;
    return 0;
}

static bool has_shape(enum tutti_work_kind kind)
{
    return kind == TUTTI_WORK_MATMUL || kind == TUTTI_WORK_CONVOLUTION ||
           kind == TUTTI_WORK_ATTENTION;
}

/* "512 x 64 x 128" */
static int read_shape(struct reader *r, struct tutti_operation *op, struct tutti_err *err)
{
    uint64_t *const sizes[] = {&op->rows, &op->depth, &op->columns};
    static const char *const names[] = {"a number of rows", "a depth", "a number of columns"};
    int status = 0;

    for (int i = 0; i < 3 && status == 0; i++) {
        if (i > 0)
            status = tutti_line_expect(&r->line, "x", err);
        if (status == 0)
            status = tutti_line_number(&r->line, names[i], UINT64_MAX, sizes[i], err);
        if (status == 0 && *sizes[i] == 0)
            status = tutti_fail(err, TUTTI_EINVAL, "'0' is not %s (1 or more)", names[i]);
    }
    return status;
}

/* Keys and values are a part of what they are counted in. */
static int check_kv(uint64_t kv, uint64_t all, struct tutti_err *err)
{
    if (kv <= all)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "'%" PRIu64 "' elements of keys and values of %" PRIu64 " (at most as many)",
                      kv, all);
}

static int read_operation(struct reader *r, struct tutti_err *err)
{
    enum { COUNT, SPLIT, IN, OUT, FLOPS, KV, FIRST };
    struct tutti_operation op = {.count = 1};
    struct key keys[] = {
        [COUNT] = {.name = "count", .min = 1, .number32 = &op.count},
        [SPLIT] = {.name = "split", .split = &op.split},
        [IN] = {.name = "in", .number = &op.in_elements},
        [OUT] = {.name = "out", .number = &op.out_elements},
        [FLOPS] = {.name = "flops", .number = &op.flops},
        [KV] = {.name = "kv", .number = &op.kv_elements},
        [FIRST] = {.name = "first", .flag = &op.no_input_gradient},
    };
    unsigned seen = 0;
    unsigned kind = 0;
    uint64_t flops;
    int status = read_name(r, &op.name, err);

    if (status == 0)
        status = read_choice(r, "a kind of work", kind_name, TUTTI_WORK_KIND_COUNT, &kind, err);
    op.kind = (enum tutti_work_kind)kind;
    if (status == 0 && has_shape(op.kind))
        status = read_shape(r, &op, err);
    if (status == 0)
        status = read_keys(r, keys, sizeof(keys) / sizeof(keys[0]), &seen, err);
    if (status < 0)
        return status;
    if ((seen >> IN & 1) == 0)
        op.in_elements = tutti_operation_in(&op);
    if ((seen >> OUT & 1) == 0)
        op.out_elements = tutti_operation_out(&op);
    status = check_kv(op.kv_elements, tutti_plus(op.in_elements, op.out_elements), err);
    if (status < 0)
        return status;
    flops = op.flops;
    tutti_build_operation(&r->build, op);
    if (r->build.no_memory)
        return tutti_nomem(err);
    if ((seen >> FLOPS & 1) != 0)
        ((struct tutti_operation *)r->build.operations.items)[r->build.operations.count - 1].flops =
            flops;
    return 0;
}

static int read_variable(struct reader *r, struct tutti_err *err)
{
    struct tutti_variable v = {.rows = 1};
    struct key keys[] = {
        {.name = "elements", .min = 1, .number = &v.elements},
        {.name = "rows", .min = 1, .number = &v.rows},
        {.name = "split", .split = &v.split},
        {.name = "touched", .number = &v.touched_rows},
        {.name = "kv", .number = &v.kv_elements},
        {.name = "unreduced", .flag = &v.unreduced},
    };
    unsigned seen = 0;
    int status = read_name(r, &v.name, err);

    if (status == 0)
        status = read_keys(r, keys, sizeof(keys) / sizeof(keys[0]), &seen, err);
    if (status == 0 && v.elements == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "a variable without 'elements N'");
    if (status == 0 && (v.rows > v.elements || v.touched_rows > v.rows))
        status = tutti_fail(
            err, TUTTI_EINVAL, "'%" PRIu64 "' %s of %" PRIu64 " %s (at most as many)",
            v.rows > v.elements ? v.rows : v.touched_rows,
            v.rows > v.elements ? "rows" : "touched rows",
            v.rows > v.elements ? v.elements : v.rows, v.rows > v.elements ? "elements" : "rows");
    if (status == 0)
        status = check_kv(v.kv_elements, v.elements, err);
    if (status < 0)
        return status;
    tutti_build_variable(&r->build, v);
    return r->build.no_memory ? tutti_nomem(err) : 0;
}

static int read_saved(struct reader *r, struct tutti_err *err)
{
    struct tutti_saved saved = {0};
    struct key keys[] = {
        {.name = "whole", .number = &saved.whole_elements},
        {.name = "whole_bytes", .number = &saved.whole_bytes},
        {.name = "split", .number = &saved.split_elements},
        {.name = "split_bytes", .number = &saved.split_bytes},
        {.name = "attention", .number = &saved.attention_elements},
        {.name = "attention_bytes", .number = &saved.attention_bytes},
        {.name = "input", .number = &saved.input_elements},
        {.name = "kv", .number = &saved.kv_elements},
    };
    unsigned seen = 0;
    int status;

    if (r->has_saved)
        return tutti_fail(err, TUTTI_EINVAL, "a second 'saved' of a layer (one)");
    r->has_saved = true;
    status = read_keys(r, keys, sizeof(keys) / sizeof(keys[0]), &seen, err);
    if (status == 0)
        status = check_kv(saved.kv_elements, saved.split_elements, err);
    if (status == 0)
        tutti_build_save(&r->build, saved);
    return status;
}

/* A line within a layer. */
static int read_part(struct reader *r, struct tutti_word word, struct tutti_err *err)
{
    static const struct {
        const char *name;
        int (*read)(struct reader *r, struct tutti_err *err);
    } parts[] = {{"operation", read_operation}, {"variable", read_variable}, {"saved", read_saved}};

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!tutti_word_is(word, parts[i].name))
            continue;
        if (r->build.layers.count == 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%s' before the first layer ('layer NAME')",
                              parts[i].name);
        return parts[i].read(r, err);
    }
    return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (%s)", TUTTI_WORD_SHOW(word),
                      r->build.layers.count == 0
                          ? "summary, source, sample, sequence, logits, examples, transformer or "
                            "layer"
                          : "layer, operation, variable or saved");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int read_line(struct reader *r, struct tutti_err *err)
{
    struct tutti_word word;
    int status;

    if (!tutti_line_word(&r->line, &word))
        return 0;
    if (r->model->name == NULL) {
        if (!tutti_word_is(word, "model"))
            return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' ('model NAME' comes first)",
                              TUTTI_WORD_SHOW(word));
        status = read_name(r, &r->model->name, err);
        return status < 0 ? status : tutti_line_end(&r->line, err);
    }
    if (tutti_word_is(word, "model"))
        return tutti_fail(err, TUTTI_EINVAL, "a second 'model' (one)");
    if (tutti_word_is(word, "layer"))
        return read_layer(r, err);
    status = read_head(r, word, err);
    return status > 0 ? read_part(r, word, err) : status;
}

static int read_lines(struct reader *r, const char *text, size_t bytes, struct tutti_err *err)
{
    int status = tutti_lines_open(&r->lines, text, bytes, err);

    while (status == 0 && tutti_lines_next(&r->lines, &r->line))
        status = read_line(r, err);
    if (status == 0 && r->model->name == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no model ('model NAME' comes first)");
    if (status == 0 && r->build.layers.count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no layer (such as: layer dense)");
    return status < 0 ? status : tutti_build_finish(&r->build, r->model, err);
}

int tutti_model_parse(const char *name, const char *text, size_t bytes, struct tutti_workload **ret,
                      struct tutti_err *err)
{
    struct reader r = {.lines = {.number = 0}};
    int status;

    r.build.arena = tutti_arena_new();
    r.model = r.build.arena == NULL ? NULL : tutti_arena_take(r.build.arena, 1, sizeof(*r.model));
    if (r.model == NULL) {
        tutti_arena_free(r.build.arena);
        return tutti_nomem(err);
    }
    *r.model = (struct tutti_workload){.summary = "",
                                       .source = "",
                                       .sample = TUTTI_SAMPLE_ROW,
                                       .sequence = 1,
                                       .arena = r.build.arena};
    status = read_lines(&r, text, bytes, err);
    if (status < 0) {
        tutti_model_free(r.model);
        return tutti_wrap(err, status, "%s: line %" PRIu64, name, r.lines.number);
    }
    *ret = r.model;
    return 0;
}
