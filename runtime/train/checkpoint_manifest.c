/* What a manifest must be: names that can be written, and pieces that hold every element once. */
#include "runtime/train/checkpoint_manifest.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

/* ---- the head -------------------------------------------------------------------------------- */

const char *tutti_checkpoint_owner_name(enum tutti_checkpoint_owner owner)
{
    static const char *const names[TUTTI_OWNER_COUNT] = {"shared", "sum", "mean", "drop"};

    assert(owner < TUTTI_OWNER_COUNT);
    return names[owner];
}

static bool is_per_rank(const struct tutti_checkpoint_slot *slot)
{
    return slot->owner != TUTTI_OWNER_SHARED;
}

static int check_name(const char *what, const char *name, struct tutti_err *err)
{
    size_t bytes = name == NULL ? 0 : strlen(name);

    if (bytes == 0 || bytes > TUTTI_CHECKPOINT_NAME_BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a name of %zu bytes for a %s (1 to %d)", bytes, what,
                          TUTTI_CHECKPOINT_NAME_BYTES_MAX);
    for (const char *p = name; *p != '\0'; p++) {
        if ((unsigned char)*p <= 0x20 || *p == 0x7f || *p == '#')
            return tutti_fail(err, TUTTI_EINVAL,
                              "%s '%s' cannot be written (a name without blanks and '#')", what,
                              name);
    }
    return 0;
}

/* Elements of a variable; 0: they are too many, or none. */
static uint64_t variable_elements(const struct tutti_checkpoint_variable *v)
{
    uint64_t elements = 1;

    for (uint32_t i = 0; i < v->dim_count; i++) {
        if (v->dims[i] == 0 || v->dims[i] > TUTTI_CHECKPOINT_ELEMENTS_MAX / elements)
            return 0;
        elements *= v->dims[i];
    }
    return elements;
}

uint64_t tutti_checkpoint_elements(const struct tutti_checkpoint_model *model)
{
    uint64_t elements = 0;

    for (uint32_t i = 0; i < model->variable_count; i++)
        elements += variable_elements(&model->variables[i]);
    return elements;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int check_twice(const struct tutti_checkpoint_model *model, struct tutti_err *err)
{
    const char **names = malloc(model->variable_count * sizeof(*names));
    int status = 0;

    if (names == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < model->variable_count; i++)
        names[i] = model->variables[i].name;
    qsort(names, model->variable_count, sizeof(*names), by_name);
    for (uint32_t i = 1; i < model->variable_count && status == 0; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            status = tutti_fail(err, TUTTI_EINVAL, "two variables are called '%s'", names[i]);
    }
    free(names);
    return status;
}

static int check_model(const struct tutti_checkpoint_model *model, struct tutti_err *err)
{
    uint64_t sum = 0;
    int status = check_name("model", model->name, err);

    if (status == 0 &&
        (model->variable_count == 0 || model->variable_count > TUTTI_CHECKPOINT_VARIABLES_MAX))
        status = tutti_fail(err, TUTTI_EINVAL, "a model of %" PRIu32 " variables (1 to %d)",
                            model->variable_count, TUTTI_CHECKPOINT_VARIABLES_MAX);
    for (uint32_t i = 0; i < model->variable_count && status == 0; i++) {
        const struct tutti_checkpoint_variable *v = &model->variables[i];
        uint64_t elements;

        status = check_name("variable", v->name, err);
        if (status < 0)
            break;
        elements = v->dim_count > TUTTI_CHECKPOINT_DIMS_MAX ? 0 : variable_elements(v);
        sum += elements;
        if (elements == 0 || sum > TUTTI_CHECKPOINT_ELEMENTS_MAX)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "variable '%s' has no elements, or too many (up to 2^56 in all)",
                                v->name);
    }
    return status < 0 ? status : check_twice(model, err);
}

static int check_slots(const struct tutti_checkpoint_head *head, struct tutti_err *err)
{
    int status = 0;

    if (head->slot_count == 0 || head->slot_count > TUTTI_CHECKPOINT_SLOTS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " slots (1 to %d)", head->slot_count,
                          TUTTI_CHECKPOINT_SLOTS_MAX);
    for (uint32_t i = 0; i < head->slot_count && status == 0; i++) {
        const struct tutti_checkpoint_slot *slot = &head->slots[i];

        status = check_name("slot", slot->name, err);
        for (uint32_t k = 0; k < i && status == 0; k++) {
            if (strcmp(head->slots[k].name, slot->name) == 0)
                status = tutti_fail(err, TUTTI_EINVAL, "two slots are called '%s'", slot->name);
        }
        if (status == 0 && (slot->elements == 0 || slot->elements > TUTTI_CHECKPOINT_ELEMENTS_MAX))
            status = tutti_fail(err, TUTTI_EINVAL, "slot '%s' has %" PRIu64 " elements (1 to 2^56)",
                                slot->name, slot->elements);
    }
    return status;
}

static int check_scalars(const struct tutti_checkpoint_head *head, struct tutti_err *err)
{
    int status = 0;

    if (head->scalar_count > TUTTI_CHECKPOINT_SCALARS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " scalars (up to %d)", head->scalar_count,
                          TUTTI_CHECKPOINT_SCALARS_MAX);
    for (uint32_t i = 0; i < head->scalar_count && status == 0; i++) {
        status = check_name("scalar", head->scalars[i].name, err);
        for (uint32_t k = 0; k < i && status == 0; k++) {
            if (strcmp(head->scalars[k].name, head->scalars[i].name) == 0)
                status = tutti_fail(err, TUTTI_EINVAL, "two scalars are called '%s'",
                                    head->scalars[i].name);
        }
    }
    return status;
}

int tutti_checkpoint_head_check(const struct tutti_checkpoint_head *head, struct tutti_err *err)
{
    int status = check_name("strategy", head->strategy, err);

    if (status == 0 && (head->rank_count == 0 || head->rank_count > TUTTI_CHECKPOINT_RANKS_MAX))
        status = tutti_fail(err, TUTTI_EINVAL, "%" PRIu32 " ranks (1 to %d)", head->rank_count,
                            TUTTI_CHECKPOINT_RANKS_MAX);
    if (status == 0)
        status = check_model(&head->model, err);
    if (status == 0)
        status = check_slots(head, err);
    return status < 0 ? status : check_scalars(head, err);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct place {
    uint32_t slot;
    uint32_t owner; /* a rank; 0 where it is shared */
    uint64_t element;
};

static struct place place_of(const struct tutti_checkpoint_piece *piece)
{
    return (struct place){piece->slot, piece->owner, piece->first};
}

static int compare_places(struct place a, struct place b)
{
    if (a.slot != b.slot)
        return a.slot < b.slot ? -1 : 1;
    if (a.owner != b.owner)
        return a.owner < b.owner ? -1 : 1;
    return (a.element > b.element) - (a.element < b.element);
}

static int by_place(const void *left, const void *right)
{
    const struct tutti_checkpoint_piece *a = left;
    const struct tutti_checkpoint_piece *b = right;

    return compare_places(place_of(a), place_of(b));
}

static int say_gap(const struct tutti_checkpoint_head *head, struct place at, uint64_t end,
                   struct tutti_err *err)
{
    const struct tutti_checkpoint_slot *slot = &head->slots[at.slot];
    char whose[48] = "";

    if (is_per_rank(slot))
        (void)snprintf(whose, sizeof(whose), " of rank %" PRIu32, at.owner);
    return tutti_fail(err, TUTTI_EINVAL,
                      "elements %" PRIu64 " to %" PRIu64 " of slot '%s'%s are in no shard",
                      at.element, end - 1, slot->name, whose);
}

/* Where the next piece must begin after one that ends at `end`. */
static struct place follow(const struct tutti_checkpoint_head *head, struct place at, uint64_t end)
{
    const struct tutti_checkpoint_slot *slot = &head->slots[at.slot];

    if (end < slot->elements)
        return (struct place){at.slot, at.owner, end};
    if (is_per_rank(slot) && at.owner + 1 < head->rank_count)
        return (struct place){at.slot, at.owner + 1, 0};
    return (struct place){at.slot + 1, 0, 0};
}

static int check_whole(const struct tutti_manifest *m, struct tutti_err *err)
{
    const struct tutti_checkpoint_head *head = &m->head;
    struct place at = {0, 0, 0};

    for (size_t i = 0; i < m->piece_count; i++) {
        const struct tutti_checkpoint_piece *piece = &m->sorted[i];
        struct place there = place_of(piece);
        int order = compare_places(there, at);

        if (order < 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "element %" PRIu64 " of slot '%s' is in two pieces", there.element,
                              head->slots[there.slot].name);
        if (order > 0)
            return say_gap(head, at,
                           there.slot == at.slot && there.owner == at.owner
                               ? there.element
                               : head->slots[at.slot].elements,
                           err);
        at = follow(head, at, piece->first + piece->count);
    }
    return at.slot == head->slot_count ? 0 : say_gap(head, at, head->slots[at.slot].elements, err);
}

int tutti_manifest_sort(struct tutti_manifest *manifest, struct tutti_err *err)
{
    size_t count = manifest->piece_count;

    manifest->sorted = tutti_arena_take(manifest->arena, count + 1, sizeof(*manifest->sorted));
    if (manifest->sorted == NULL)
        return tutti_nomem(err);
    if (count > 0) {
        memcpy(manifest->sorted, manifest->pieces, count * sizeof(*manifest->sorted));
        qsort(manifest->sorted, count, sizeof(*manifest->sorted), by_place);
    }
    return check_whole(manifest, err);
}

size_t tutti_manifest_find(const struct tutti_manifest *manifest, uint32_t slot, uint32_t rank,
                           uint64_t element)
{
    const struct tutti_checkpoint_slot *slots = manifest->head.slots;
    struct place wanted = {slot, is_per_rank(&slots[slot]) ? rank : 0, element};
    size_t low = 0;
    size_t high = manifest->piece_count;

    assert(element < slots[slot].elements);
    while (high - low > 1) { /* the last that begins at or before it */
        size_t middle = low + (high - low) / 2;

        if (compare_places(place_of(&manifest->sorted[middle]), wanted) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- models ---------------------------------------------------------------------------------- */

enum { SHAPE_BYTES_MAX = 176 };

static const char *print_shape(const struct tutti_checkpoint_variable *v, char *buf)
{
    size_t used = 0;

    if (v->dim_count == 0)
        (void)snprintf(buf, SHAPE_BYTES_MAX, "scalar");
    for (uint32_t i = 0; i < v->dim_count; i++)
        used += (size_t)snprintf(buf + used, SHAPE_BYTES_MAX - used, "%s%" PRIu64, i > 0 ? "x" : "",
                                 v->dims[i]);
    return buf;
}

static bool same_shape(const struct tutti_checkpoint_variable *a,
                       const struct tutti_checkpoint_variable *b)
{
    return a->dim_count == b->dim_count &&
           memcmp(a->dims, b->dims, a->dim_count * sizeof(a->dims[0])) == 0;
}

static const struct tutti_checkpoint_variable *find(const struct tutti_checkpoint_model *model,
                                                    const char *name)
{
    for (uint32_t i = 0; i < model->variable_count; i++) {
        if (strcmp(model->variables[i].name, name) == 0)
            return &model->variables[i];
    }
    return NULL;
}

/* Of the first place in which two models differ: one of them may have ended there. */
static int say_difference(const struct tutti_checkpoint_model *there,
                          const struct tutti_checkpoint_model *here, uint32_t index,
                          struct tutti_err *err)
{
    const struct tutti_checkpoint_variable *mine =
        index < here->variable_count ? &here->variables[index] : NULL;
    const struct tutti_checkpoint_variable *its =
        index < there->variable_count ? &there->variables[index] : NULL;
    const struct tutti_checkpoint_variable *same = mine == NULL ? NULL : find(there, mine->name);
    char a[SHAPE_BYTES_MAX];
    char b[SHAPE_BYTES_MAX];

    if (same != NULL && !same_shape(same, mine))
        return tutti_fail(err, TUTTI_EINVAL,
                          "another model's ('%s'; '%s' here): variable '%s' is %s there, %s here",
                          there->name, here->name, mine->name, print_shape(same, a),
                          print_shape(mine, b));
    if (mine != NULL && its != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "another model's ('%s'; '%s' here): variable %" PRIu32
                          " is '%s' (%s) there, '%s' (%s) here",
                          there->name, here->name, index, its->name, print_shape(its, a),
                          mine->name, print_shape(mine, b));
    return tutti_fail(err, TUTTI_EINVAL,
                      "another model's ('%s'; '%s' here): variable '%s' (%s) is not %s",
                      there->name, here->name, mine == NULL ? its->name : mine->name,
                      print_shape(mine == NULL ? its : mine, a), mine == NULL ? "here" : "there");
}

int tutti_checkpoint_same_model(const struct tutti_checkpoint_model *there,
                                const struct tutti_checkpoint_model *here, struct tutti_err *err)
{
    uint32_t count =
        there->variable_count < here->variable_count ? there->variable_count : here->variable_count;

    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(there->variables[i].name, here->variables[i].name) != 0 ||
            !same_shape(&there->variables[i], &here->variables[i]))
            return say_difference(there, here, i, err);
    }
    if (there->variable_count != here->variable_count)
        return say_difference(there, here, count, err);
    if (there->hash != here->hash)
        return tutti_fail(err, TUTTI_EINVAL,
                          "another model's: '%s' has hash %016" PRIx64 " there, '%s' %016" PRIx64
                          " here, of the same variables",
                          there->name, there->hash, here->name, here->hash);
    return 0;
}
