/* An elastic coordinator goes on in another process: whatever has happened, who takes its image
 * decides from then on as it does. */
#include "runtime/coordinator.h"

#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { MEMBERS = 5, EVENTS = 400 };

static struct tutti_coordinator *make(const char *name, uint32_t members)
{
    const struct tutti_coordinator_params params = {.size = sizeof(params),
                                                    .member_count = members,
                                                    .last_step = 1000,
                                                    .least_members = 2,
                                                    .first_members = 3};
    const struct tutti_coordinator_ops *ops;
    struct tutti_coordinator *c = NULL;

    if (tutti_coordinator_find(name, &ops, NULL) == 0)
        (void)tutti_coordinator_new(ops, &params, &c, NULL);
    return c;
}

/* Timely or late, of anybody. */
static struct tutti_coord_event draw(struct tutti_random *dice, const struct tutti_coordinator *c)
{
    static const enum tutti_coord_event_kind kinds[] = {
        TUTTI_EVENT_DONE,   TUTTI_EVENT_DONE, TUTTI_EVENT_DONE,     TUTTI_EVENT_JOINED,
        TUTTI_EVENT_JOINED, TUTTI_EVENT_LOST, TUTTI_EVENT_SAVE_DUE, TUTTI_EVENT_LEAVING};
    const uint32_t member = (uint32_t)tutti_random_below(dice, MEMBERS);
    const struct tutti_coord_member *m = tutti_coordinator_member(c, member);

    return (struct tutti_coord_event){
        .kind = kinds[tutti_random_below(dice, sizeof(kinds) / sizeof(kinds[0]))],
        .member = member,
        .incarnation = m->incarnation - (tutti_random_below(dice, 16) == 0),
        .episode = m->episode};
}

static bool same(const struct tutti_coord_action *a, const struct tutti_coord_action *b)
{
    return a->kind == b->kind && a->member == b->member && a->incarnation == b->incarnation &&
           a->episode == b->episode && a->step == b->step && a->number == b->number;
}

/* Returns how many actions both have decided on after the image was taken. */
static uint32_t tell(uint64_t seed)
{
    struct tutti_coordinator *one = make("elastic", MEMBERS);
    struct tutti_coordinator *other = make("elastic", MEMBERS);
    uint64_t *image = calloc(tutti_coordinator_image_count(one), sizeof(image[0]));
    struct tutti_random dice;
    uint32_t decided = 0;
    uint64_t moment;

    tutti_random_seed(&dice, seed);
    moment = tutti_random_below(&dice, EVENTS);
    for (uint64_t i = 0; i < EVENTS; i++) {
        const struct tutti_coord_event event = draw(&dice, one);
        const struct tutti_coord_action *a;
        const struct tutti_coord_action *b;
        uint32_t a_count;
        uint32_t b_count = 0;

        if (i == moment) {
            tutti_coordinator_image(one, image);
            CHECK_INT(tutti_coordinator_take_image(other, image, NULL), 0);
        }
        a = tutti_coordinator_event(one, &event, &a_count);
        if (i < moment)
            continue;
        b = tutti_coordinator_event(other, &event, &b_count);
        CHECK_INT(b_count, a_count);
        for (uint32_t k = 0; k < a_count && a_count == b_count; k++)
            CHECK(same(&a[k], &b[k]));
        decided += a_count;
    }
    CHECK_INT(tutti_coordinator_step(other), tutti_coordinator_step(one));
    free(image);
    tutti_coordinator_free(one);
    tutti_coordinator_free(other);
    return decided;
}

TEST(who_takes_an_image_decides_as_it_would)
{
    const uint64_t count = test_count(2000, 100);
    uint64_t decided = 0;

    for (uint64_t i = 0; i < count && test_failures == 0; i++)
        decided += tell(test_seed + i);
    CHECK(decided > 20 * count);
}

TEST(an_image_of_others_is_refused)
{
    struct tutti_coordinator *small = make("elastic", 3);
    struct tutti_coordinator *one = make("elastic", MEMBERS);
    struct tutti_coordinator *queue = make("queue", MEMBERS);
    uint64_t *image = calloc(tutti_coordinator_image_count(one), sizeof(image[0]));
    struct tutti_err err = {""};

    tutti_coordinator_image(one, image);
    CHECK_INT(tutti_coordinator_take_image(small, image, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'5' members at most, and here 3");
    CHECK_INT(tutti_coordinator_take_image(queue, image, &err), -TUTTI_ELACK);
    free(image);
    tutti_coordinator_free(small);
    tutti_coordinator_free(one);
    tutti_coordinator_free(queue);
}
