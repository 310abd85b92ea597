/* Manifests: their lines, words and numbers, and the head. (checkpoint_parse.c reads the rest.) */
#include "runtime/train/checkpoint_reader.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

/* ---- lines and words ------------------------------------------------------------------------- */

void tutti_manifest_reader_next(struct tutti_manifest_reader *r)
{
    do {
        r->offset = (size_t)(r->lines.next - r->text);
        r->word.bytes = 0;
        if (!tutti_lines_next(&r->lines, &r->line))
            return;
    } while (!tutti_line_word(&r->line, &r->word));
}

bool tutti_manifest_reader_at(const struct tutti_manifest_reader *r, const char *keyword)
{
    return r->word.bytes > 0 && tutti_word_is(r->word, keyword);
}

int tutti_manifest_reader_expect(const struct tutti_manifest_reader *r, const char *keyword,
                                 struct tutti_err *err)
{
    if (tutti_manifest_reader_at(r, keyword))
        return 0;
    if (r->word.bytes == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the text ends where '%s' should stand", keyword);
    return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' ('%s')", TUTTI_WORD_SHOW(r->word),
                      keyword);
}

int tutti_manifest_reader_end_line(struct tutti_manifest_reader *r, struct tutti_err *err)
{
    int status = tutti_line_end(&r->line, err);

    if (status == 0)
        tutti_manifest_reader_next(r);
    return status;
}

static bool is_name_byte(char c)
{
    return (unsigned char)c > 0x20 && c != 0x7f && c != '#';
}

static int read_name(struct tutti_manifest_reader *r, const char **ret, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a name", &word, err);
    char *name;

    if (status < 0)
        return status;
    if (word.bytes > TUTTI_CHECKPOINT_NAME_BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a name of %zu bytes (up to %d)", word.bytes,
                          TUTTI_CHECKPOINT_NAME_BYTES_MAX);
    for (size_t i = 0; i < word.bytes; i++) {
        if (!is_name_byte(word.text[i]))
            return tutti_fail(err, TUTTI_EINVAL, "a control character in name '%.*s' (none)",
                              TUTTI_WORD_SHOW(word));
    }
    name = tutti_arena_take(r->arena, word.bytes + 1, 1);
    if (name == NULL)
        return tutti_nomem(err);
    memcpy(name, word.text, word.bytes);
    *ret = name;
    return 0;
}

int tutti_manifest_reader_hash(struct tutti_manifest_reader *r, uint64_t *ret,
                               struct tutti_err *err)
{
    static const char digits[] = "0123456789abcdef";
    struct tutti_word word = {NULL, 0};
    uint64_t value = 0;
    int status = tutti_line_need(&r->line, "16 digits of base 16", &word, err);

    if (status < 0)
        return status;
    for (size_t i = 0; i < word.bytes && word.bytes == 16; i++) {
        const char *digit = memchr(digits, word.text[i], 16);

        if (digit == NULL)
            word.bytes = 0;
        else
            value = value << 4 | (uint64_t)(digit - digits);
    }
    if (word.bytes != 16)
        return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not 16 digits of base 16 (0 to 9, a to f)",
                          word.bytes == 0   ? 16
                          : word.bytes > 40 ? 40
                                            : (int)word.bytes,
                          word.text);
    *ret = value;
    return 0;
}

/* "KEYWORD NUMBER", a line. */
static int read_setting(struct tutti_manifest_reader *r, const char *keyword, uint64_t max,
                        uint64_t *ret, struct tutti_err *err)
{
    int status = tutti_manifest_reader_expect(r, keyword, err);

    if (status == 0)
        status = tutti_line_number(&r->line, "a number", max, ret, err);
    return status < 0 ? status : tutti_manifest_reader_end_line(r, err);
}

void *tutti_manifest_reader_append(struct tutti_manifest_reader *r, void *items, size_t count,
                                   size_t size)
{
    size_t capacity = count < 16 ? 16 : 2 * count;
    void *more;

    if (count > 0 && (count < 16 || (count & (count - 1)) != 0))
        return items; /* it is 16, or the next power of 2 */
    more = tutti_arena_take(r->arena, capacity, size);
    if (more != NULL && count > 0)
        memcpy(more, items, count * size);
    return more;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* "784x128", "scalar" */
static int read_shape(struct tutti_manifest_reader *r, struct tutti_checkpoint_variable *v,
                      struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a shape", &word, err);
    const char *stop;
    const char *end;

    if (status < 0 || tutti_word_is(word, "scalar"))
        return status;
    end = word.text + word.bytes;
    for (const char *p = word.text; p != NULL; p = stop == NULL ? NULL : stop + 1) {
        struct tutti_line piece = {p, end, NULL};
        uint64_t dim = 0;

        stop = memchr(p, 'x', (size_t)(end - p));
        piece.end = stop == NULL ? end : stop;
        if (v->dim_count == TUTTI_CHECKPOINT_DIMS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "shape '%.*s' has more than %d dimensions",
                              TUTTI_WORD_SHOW(word), TUTTI_CHECKPOINT_DIMS_MAX);
        if (tutti_line_number(&piece, "a number", TUTTI_CHECKPOINT_ELEMENTS_MAX, &dim, NULL) < 0 ||
            dim == 0)
            return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not a shape (784x128, or 'scalar')",
                              TUTTI_WORD_SHOW(word));
        v->dims[v->dim_count++] = dim;
    }
    return 0;
}

static int read_variables(struct tutti_manifest_reader *r, struct tutti_checkpoint_model *model,
                          struct tutti_err *err)
{
    struct tutti_checkpoint_variable *variables = NULL;
    int status = tutti_manifest_reader_expect(r, "variable", err);

    while (status == 0 && tutti_manifest_reader_at(r, "variable")) {
        struct tutti_checkpoint_variable v = {.dim_count = 0};

        if (model->variable_count == TUTTI_CHECKPOINT_VARIABLES_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d variables",
                              TUTTI_CHECKPOINT_VARIABLES_MAX);
        variables =
            tutti_manifest_reader_append(r, variables, model->variable_count, sizeof(*variables));
        if (variables == NULL)
            return tutti_nomem(err);
        status = read_name(r, &v.name, err);
        if (status == 0)
            status = read_shape(r, &v, err);
        if (status == 0)
            status = tutti_manifest_reader_end_line(r, err);
        variables[model->variable_count++] = v;
    }
    model->variables = variables;
    return status;
}

static int read_dtype(struct tutti_manifest_reader *r, enum tutti_dtype *ret, struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "a type", &word, err);

    if (status < 0)
        return status;
    for (int i = 0; i < TUTTI_DTYPE_COUNT; i++) {
        if (tutti_word_is(word, tutti_dtype_name((enum tutti_dtype)i))) {
            *ret = (enum tutti_dtype)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "'%.*s' is not a type (float, double, half, ...)",
                      TUTTI_WORD_SHOW(word));
}

static int read_owner(struct tutti_manifest_reader *r, enum tutti_checkpoint_owner *ret,
                      struct tutti_err *err)
{
    struct tutti_word word = {NULL, 0};
    int status = tutti_line_need(&r->line, "whose it is", &word, err);

    if (status < 0)
        return status;
    for (int i = 0; i < TUTTI_OWNER_COUNT; i++) {
        if (tutti_word_is(word, tutti_checkpoint_owner_name((enum tutti_checkpoint_owner)i))) {
            *ret = (enum tutti_checkpoint_owner)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (shared, sum, mean or drop)",
                      TUTTI_WORD_SHOW(word));
}

static int read_slots(struct tutti_manifest_reader *r, struct tutti_checkpoint_head *head,
                      struct tutti_err *err)
{
    struct tutti_checkpoint_slot *slots = NULL;
    int status = tutti_manifest_reader_expect(r, "slot", err);

    while (status == 0 && tutti_manifest_reader_at(r, "slot")) {
        struct tutti_checkpoint_slot slot = {.elements = 0};

        if (head->slot_count == TUTTI_CHECKPOINT_SLOTS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d slots", TUTTI_CHECKPOINT_SLOTS_MAX);
        slots = tutti_manifest_reader_append(r, slots, head->slot_count, sizeof(*slots));
        if (slots == NULL)
            return tutti_nomem(err);
        status = read_name(r, &slot.name, err);
        if (status == 0)
            status = read_dtype(r, &slot.dtype, err);
        if (status == 0)
            status = read_owner(r, &slot.owner, err);
        if (status == 0)
            status = tutti_line_number(&r->line, "a number of elements",
                                       TUTTI_CHECKPOINT_ELEMENTS_MAX, &slot.elements, err);
        if (status == 0)
            status = tutti_manifest_reader_end_line(r, err);
        slots[head->slot_count++] = slot;
    }
    head->slots = slots;
    return status;
}

static int read_scalar(struct tutti_manifest_reader *r, struct tutti_checkpoint_scalar *scalar,
                       struct tutti_err *err)
{
    struct tutti_word kind = {NULL, 0};
    uint64_t bits = 0;
    int status = read_name(r, &scalar->name, err);

    if (status == 0)
        status = tutti_line_need(&r->line, "'integer' or 'real'", &kind, err);
    if (status < 0)
        return status;
    if (tutti_word_is(kind, "integer"))
        return tutti_line_number(&r->line, "a number", UINT64_MAX, &scalar->integer, err);
    if (!tutti_word_is(kind, "real"))
        return tutti_fail(err, TUTTI_EINVAL, "unexpected '%.*s' (integer or real)",
                          TUTTI_WORD_SHOW(kind));
    status = tutti_manifest_reader_hash(r, &bits, err);
    scalar->is_real = true;
    memcpy(&scalar->real, &bits, sizeof(bits));
    return status;
}

static int read_scalars(struct tutti_manifest_reader *r, struct tutti_checkpoint_head *head,
                        struct tutti_err *err)
{
    struct tutti_checkpoint_scalar *scalars = NULL;
    int status = 0;

    while (status == 0 && tutti_manifest_reader_at(r, "scalar")) {
        struct tutti_checkpoint_scalar scalar = {.is_real = false};

        if (head->scalar_count == TUTTI_CHECKPOINT_SCALARS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d scalars",
                              TUTTI_CHECKPOINT_SCALARS_MAX);
        scalars = tutti_manifest_reader_append(r, scalars, head->scalar_count, sizeof(*scalars));
        if (scalars == NULL)
            return tutti_nomem(err);
        status = read_scalar(r, &scalar, err);
        if (status == 0)
            status = tutti_manifest_reader_end_line(r, err);
        scalars[head->scalar_count++] = scalar;
    }
    head->scalars = scalars;
    return status;
}

int tutti_manifest_reader_first(struct tutti_manifest_reader *r, const char *what,
                                struct tutti_err *err)
{
    int status = tutti_manifest_reader_expect(r, "tutti", err);

    if (status == 0)
        status = tutti_line_expect(&r->line, what, err);
    return status < 0 ? status : tutti_line_expect(&r->line, "1", err);
}

int tutti_manifest_reader_id(struct tutti_manifest_reader *r, struct tutti_checkpoint_id *id,
                             struct tutti_err *err)
{
    int status = read_setting(r, "step", UINT64_MAX, &id->step, err);

    return status < 0 ? status : read_setting(r, "incarnation", UINT64_MAX, &id->incarnation, err);
}

static int read_model(struct tutti_manifest_reader *r, struct tutti_checkpoint_model *model,
                      struct tutti_err *err)
{
    int status = tutti_manifest_reader_expect(r, "model", err);

    if (status == 0)
        status = read_name(r, &model->name, err);
    if (status == 0)
        status = tutti_line_expect(&r->line, "hash", err);
    if (status == 0)
        status = tutti_manifest_reader_hash(r, &model->hash, err);
    return status < 0 ? status : tutti_manifest_reader_end_line(r, err);
}

int tutti_manifest_reader_head(struct tutti_manifest_reader *r, struct tutti_checkpoint_head *head,
                               struct tutti_err *err)
{
    uint64_t ranks = 0;
    int status = tutti_manifest_reader_first(r, "checkpoint", err);

    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0)
        status = tutti_manifest_reader_id(r, &head->id, err);
    if (status == 0)
        status = read_model(r, &head->model, err);
    if (status == 0)
        status = tutti_manifest_reader_expect(r, "strategy", err);
    if (status == 0)
        status = read_name(r, &head->strategy, err);
    if (status == 0)
        status = tutti_manifest_reader_end_line(r, err);
    if (status == 0)
        status = read_setting(r, "ranks", TUTTI_CHECKPOINT_RANKS_MAX, &ranks, err);
    head->rank_count = (uint32_t)ranks;
    if (status == 0)
        status = read_variables(r, &head->model, err);
    if (status == 0)
        status = read_slots(r, head, err);
    if (status == 0)
        status = read_scalars(r, head, err);
    return status < 0 ? status : tutti_checkpoint_head_check(head, err);
}
