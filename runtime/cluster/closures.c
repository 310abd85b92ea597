/* Slots of closures, taken again when one is forgotten; see closures.h. */
#include "runtime/cluster/closures.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t NONE = UINT32_MAX;

void tutti_closures_init(struct tutti_closures *closures)
{
    *closures = (struct tutti_closures){.first_free = NONE};
}

void tutti_closures_done(struct tutti_closures *closures)
{
    for (uint32_t i = 0; i < closures->used; i++) {
        free(closures->slots[i].function);
        free(closures->slots[i].data);
    }
    free(closures->slots);
}

static bool grow(struct tutti_closures *closures)
{
    uint32_t room = closures->room > 0 ? 2 * closures->room : 64;
    struct tutti_closure *grown;

    if (closures->room > UINT32_MAX / 4)
        return false;
    grown = realloc(closures->slots, room * sizeof(*grown));
    if (grown == NULL)
        return false;
    closures->slots = grown;
    closures->room = room;
    return true;
}

static void *copy_of(const void *data, uint64_t bytes)
{
    void *copy = malloc((size_t)bytes + 1);

    if (copy == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(copy, data, (size_t)bytes);
    ((char *)copy)[bytes] = '\0'; /* texts end with a zero */
    return copy;
}

struct tutti_closure *tutti_closures_add(struct tutti_closures *closures, const char *function,
                                         const void *input, uint64_t bytes)
{
    char *name = strdup(function);
    void *data = copy_of(input, bytes);
    struct tutti_closure *closure = NULL;
    uint64_t times = 1;

    if (name != NULL && data != NULL && closures->first_free != NONE) {
        closure = &closures->slots[closures->first_free];
        times = (closure->number >> 32) + 1;
        closures->first_free = closure->next_free;
    } else if (name != NULL && data != NULL &&
               (closures->used < closures->room || grow(closures))) {
        closure = &closures->slots[closures->used++];
    }
    if (closure == NULL) {
        free(name);
        free(data);
        return NULL;
    }
    *closure = (struct tutti_closure){
        .number = times << 32 | (uint64_t)(closure - closures->slots),
        .state = TUTTI_CLOSURE_QUEUED,
        .function = name,
        .data = data,
        .bytes = bytes,
    };
    closures->open_count++;
    return closure;
}

struct tutti_closure *tutti_closures_find(const struct tutti_closures *closures, uint64_t number)
{
    uint32_t slot = (uint32_t)number;

    if (slot >= closures->used || closures->slots[slot].number != number ||
        closures->slots[slot].state == TUTTI_CLOSURE_FREE)
        return NULL;
    return &closures->slots[slot];
}

bool tutti_closures_end(struct tutti_closures *closures, struct tutti_closure *closure,
                        enum tutti_closure_state state, int status, const void *data,
                        uint64_t bytes)
{
    void *copy = copy_of(data, bytes);

    assert(closure->state == TUTTI_CLOSURE_QUEUED);
    if (copy == NULL)
        return false;
    free(closure->data);
    closure->data = copy;
    closure->bytes = bytes;
    closure->state = state;
    closure->status = status;
    closures->open_count--;
    return true;
}

/* The number stays, so that the next in this slot has another. */
void tutti_closures_forget(struct tutti_closures *closures, struct tutti_closure *closure)
{
    assert(closure->state != TUTTI_CLOSURE_FREE);
    closures->open_count -= closure->state == TUTTI_CLOSURE_QUEUED;
    free(closure->function);
    free(closure->data);
    closure->function = NULL;
    closure->data = NULL;
    closure->state = TUTTI_CLOSURE_FREE;
    closure->next_free = closures->first_free;
    closures->first_free = (uint32_t)(closure - closures->slots);
}
