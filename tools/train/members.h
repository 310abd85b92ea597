/* Who takes part in an elastic training: the coordinator "elastic", which each process drives by
 * the same events, in the same order. */
#ifndef TUTTI_TOOLS_TRAIN_MEMBERS_H
#define TUTTI_TOOLS_TRAIN_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;
struct tutti_group;
struct tutti_train_members;

struct tutti_train_members_params {
    uint32_t most;
    uint32_t least;
    uint32_t first; /* make the first group */
    uint64_t first_step;
    uint64_t last_step;
};

/* Nobody is there yet. */
int tutti_train_members_new(const struct tutti_train_members_params *params,
                            struct tutti_train_members **ret, struct tutti_err *err);
void tutti_train_members_free(struct tutti_train_members *members); /* NULL is a no-op */

/* As numbers, for one that comes later, or knows less. */
size_t tutti_train_members_image_count(const struct tutti_train_members *members);
void tutti_train_members_image(const struct tutti_train_members *members, uint64_t *ret);
int tutti_train_members_take_image(struct tutti_train_members *members, const uint64_t *image,
                                   struct tutti_err *err);

/* Events. Those of a group who are not known have joined; all who are at the step have done it; the
 * known ones who are not of the group are lost. -TUTTI_EINVAL: more come than there may be. */
int tutti_train_members_join(struct tutti_train_members *members, const struct tutti_group *group,
                             struct tutti_err *err);
void tutti_train_members_done(struct tutti_train_members *members);
void tutti_train_members_lose(struct tutti_train_members *members, const struct tutti_group *group);
/* Would go at the end of the step. `id`: tutti_group_id. */
void tutti_train_members_leave(struct tutti_train_members *members, uint32_t id);

/* The global step, and whether it is the last. */
uint64_t tutti_train_members_step(const struct tutti_train_members *members);
uint32_t tutti_train_members_count(const struct tutti_train_members *members); /* present */
/* What the last group that was formed takes: from whom those who have nothing get it, by index in
 * `group`; false: nobody needs anything. */
bool tutti_train_members_source(const struct tutti_train_members *members,
                                const struct tutti_group *group, uint32_t *ret_index);
/* Whether a member is to take part in the step; else it has left. */
bool tutti_train_members_works(const struct tutti_train_members *members, uint32_t id);

#endif
