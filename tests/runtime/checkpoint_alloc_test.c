/* Every allocation of saving and restoring made to fail once: nothing is left behind, in memory or
 * as a checkpoint that is not whole. */
#include "tests/alloc_fail.h"
#include "tests/runtime/checkpoint_world.h"

static struct world w;

/* Steps 1 and 2 by two ranks, of which one is kept. Closing tells what the threads met with. */
static int save_twice(struct tutti_err *err)
{
    int status = world_open_savers(&w);
    int closed;

    if (status == 0)
        status = world_save(&w, SPREAD_SHARDS, 1);
    if (status == 0)
        status = world_save(&w, SPREAD_SHARDS, 2);
    closed = world_close_savers(&w);
    *err = w.err;
    return status < 0 ? status : closed;
}

static int restore(struct tutti_err *err)
{
    struct tutti_checkpoint_source source = {.disk = w.disk, .model = &world_model, .verify = true};
    struct tutti_checkpoint_want want = {"local", TUTTI_FLOAT64, 0, ELEMENTS, 0, 3};
    struct tutti_checkpoint *c = NULL;
    uint64_t incarnation = 0;
    double data[ELEMENTS];
    int status = tutti_checkpoint_next_incarnation(w.disk, w.dir, &incarnation, err);

    if (status == 0)
        status = tutti_checkpoint_open_newest(&source, w.dir, &c, err);
    if (status == 0 && c == NULL)
        TEST_FAIL("there is no checkpoint");
    if (status == 0 && c != NULL)
        status = tutti_checkpoint_read(c, &want, data, err);
    tutti_checkpoint_close(c);
    return status;
}

TEST(saving_and_restoring_fail_cleanly)
{
    struct tutti_err err = {""};

    world_init(&w, 2);
    w.keep = 1;
    w.copy_bytes = 1 << 12;
    CHECK_INT(save_twice(&err), 0); /* something is there to be removed */
    w.incarnation = 1;
    ALLOC_FAIL_EACH(save_twice(&err), err);
    w.disk = world_disk();
    CHECK_INT(world_restore(&w, 2, NULL), 2);
    ALLOC_FAIL_EACH(restore(&err), err);
    world_done(&w);
}
