/* Elastic groups in virtual time: what losses, newcomers and notices cost, to the picosecond. */
#include "runtime/status.h"
#include "sim/servers.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

static const tutti_ps MS = 1000000000;

/* A step of n members takes 100 ms and n more, of 8 samples each; the state goes round in 5 ms a
 * member. */
static int price(void *context, uint32_t members, struct tutti_elastic_price *ret,
                 struct tutti_err *err)
{
    (void)err;
    if (context != NULL)
        ((uint32_t *)context)[members]++;
    *ret = (struct tutti_elastic_price){(100 + members) * MS, 5 * members * MS, 8 * members};
    return 0;
}

static struct tutti_elastic_opts opts_of(uint32_t members, uint64_t steps)
{
    return (struct tutti_elastic_opts){.size = sizeof(struct tutti_elastic_opts),
                                       .params = {.size = sizeof(struct tutti_coordinator_params),
                                                  .member_count = members,
                                                  .last_step = steps},
                                       .price = price,
                                       .rendezvous_ps = 30 * MS,
                                       .detect_ps = 10 * MS,
                                       .seed = test_seed};
}

static struct tutti_elastic play(struct tutti_elastic_opts *opts,
                                 const struct tutti_servers_change *changes, uint32_t count)
{
    struct tutti_elastic elastic = {0};
    struct tutti_err err = {""};

    opts->changes = changes;
    opts->change_count = count;
    CHECK_OK(tutti_elastic_play(opts, &elastic, &err), err);
    return elastic;
}

static void refuse(struct tutti_elastic_opts *opts, const struct tutti_servers_change *changes,
                   uint32_t count, int status, const char *why)
{
    struct tutti_elastic elastic = {0};
    struct tutti_err err = {""};

    opts->changes = changes;
    opts->change_count = count;
    CHECK_INT(tutti_elastic_play(opts, &elastic, &err), status);
    CHECK_TEXT(err.text, why);
}

static struct tutti_servers_change lost(uint32_t member, tutti_ps at_ps)
{
    return (struct tutti_servers_change){.index = member, .at_ps = at_ps};
}

static struct tutti_servers_change comes(uint32_t member, tutti_ps at_ps)
{
    return (struct tutti_servers_change){.comes = true, .index = member, .at_ps = at_ps};
}

TEST(a_group_that_stays_meets_once)
{
    uint32_t asked[5] = {0};
    struct tutti_elastic_opts opts = opts_of(4, 10);
    struct tutti_elastic e;

    opts.context = asked;
    e = play(&opts, NULL, 0);
    /* the others have the first values from the one that has made them */
    CHECK_INT(e.total_ps, (30 + 20 + 10 * 104) * MS);
    CHECK_INT(e.rendezvous_ps, 30 * MS);
    CHECK_INT(e.broadcast_ps, 20 * MS);
    CHECK_INT(e.groups, 1);
    CHECK_INT(e.samples, 320);
    CHECK_INT(asked[4], 1);
    CHECK_INT(asked[3] + asked[2] + asked[1], 0);
}

/* Lost at 500 ms, in the fifth step, which began at 466 ms; known at 510 ms; the others have the
 * weights, meet and make it again. */
TEST(a_loss_costs_the_step_and_a_rendezvous)
{
    const struct tutti_servers_change change[] = {lost(2, 500 * MS), comes(2, 800 * MS)};
    struct tutti_elastic_opts opts = opts_of(4, 10);
    struct tutti_elastic e = play(&opts, change, 1);

    CHECK_INT(e.total_ps, (30 + 20 + 4 * 104 + 44 + 30 + 6 * 103) * MS);
    CHECK_INT(e.broken_ps, 44 * MS);
    CHECK_INT(e.broken_off, 1);
    CHECK_INT(e.failures, 1);
    CHECK_INT(e.groups, 2);
    CHECK_INT(e.least, 3);
    CHECK_INT(e.samples, 4 * 32 + 6 * 24);
    CHECK_INT(e.broadcast_ps, 20 * MS);
    e = play(&opts, change, 2); /* it waits until the step that is under way ends, at 849 ms */
    CHECK_INT(e.total_ps, (30 + 20 + 4 * 104 + 44 + 30 + 3 * 103 + 30 + 20 + 3 * 104) * MS);
    CHECK_INT(e.groups, 3);
    CHECK_INT(e.repeated, 0);
    CHECK_INT(e.most, 4);
}

TEST(who_has_notice_goes_at_the_end_of_the_step)
{
    const struct tutti_servers_change change = {.leaves = true, .index = 2, .at_ps = 500 * MS};
    struct tutti_elastic_opts opts = opts_of(4, 10);
    struct tutti_elastic e = play(&opts, &change, 1);

    CHECK_INT(e.total_ps, (30 + 20 + 5 * 104 + 30 + 5 * 103) * MS);
    CHECK_INT(e.left, 1);
    CHECK_INT(e.failures, 0);
    CHECK_INT(e.broken_off, 0);
}

/* A group of two is the least: nobody trains from 510 ms until one comes at 700 ms. */
TEST(too_few_wait)
{
    const struct tutti_servers_change change[] = {lost(1, 500 * MS), comes(1, 700 * MS)};
    struct tutti_elastic_opts opts = opts_of(2, 10);
    struct tutti_elastic e;

    opts.params.least_members = 2;
    e = play(&opts, change, 2);
    CHECK_INT(e.waiting_ps, 190 * MS);
    CHECK_INT(e.total_ps, (700 + 30 + 10 + 6 * 102) * MS);
    refuse(&opts, change, 1, -TUTTI_ECHECK,
           "training stands still at step 4: fewer members than the least, 2, and none is to come");
}

/* Checkpoints of steps 3 and 6 are written when all are lost, in the ninth. */
TEST(nobody_left_is_the_last_checkpoint)
{
    const struct tutti_servers_change change[] = {lost(0, 900 * MS), lost(1, 900 * MS),
                                                  comes(1, 1000 * MS)};
    struct tutti_elastic_opts opts = opts_of(2, 10);
    struct tutti_elastic e;

    opts.save_every_ps = 300 * MS;
    opts.save_ps = 50 * MS;
    opts.restore_ps = 7 * MS;
    e = play(&opts, change, 3);
    CHECK_INT(e.checkpoints, 4); /* and of steps 7, 9 */
    CHECK_INT(e.repeated, 8 - 6);
    CHECK_INT(e.total_ps, (1000 + 30 + 7 + 4 * 101) * MS);
}

TEST(all_time_is_told)
{
    for (uint64_t i = 0; i < 50; i++) {
        struct tutti_elastic_opts opts = opts_of(6, 300);
        struct tutti_elastic e;
        struct tutti_elastic again;
        tutti_ps told;

        opts.seed = test_seed + i;
        opts.mtbf_ps = 4000 * MS;
        opts.restart_ps = 700 * MS;
        opts.params.least_members = 1 + (uint32_t)(i % 4);
        opts.save_every_ps = 2000 * MS;
        e = play(&opts, NULL, 0);
        again = play(&opts, NULL, 0);
        CHECK(memcmp(&e, &again, sizeof(e)) == 0);
        CHECK_INT(e.steps, 300);
        CHECK(e.failures > 20 && e.broken_off > 10 && e.groups > e.broken_off);
        CHECK(e.least >= opts.params.least_members);
        /* a step of n members: 100 ms and n, of which there were 8 n samples */
        told = (tutti_ps)((e.steps + e.repeated) * 100 + e.samples / 8) * MS + e.rendezvous_ps +
               e.broadcast_ps + e.broken_ps + e.waiting_ps;
        CHECK_INT(e.total_ps, told);
    }
}

TEST(who_is_lost_too_often_does_not_go_on_for_ever)
{
    struct tutti_elastic_opts opts = opts_of(4, 100);
    struct tutti_elastic elastic = {0};
    struct tutti_err err = {""};

    opts.params.least_members = 4;
    opts.rendezvous_ps = 100000 * MS;
    opts.mtbf_ps = 20000 * MS;
    opts.restart_ps = 20000 * MS;
    CHECK_INT(tutti_elastic_play(&opts, &elastic, &err), -TUTTI_ECHECK);
    CHECK(strncmp(err.text, "training fails more often than it gets on: step ", 48) == 0);
}

TEST(nonsense_is_refused)
{
    const struct tutti_servers_change server = {.is_server = true};
    const struct tutti_servers_change change[] = {lost(1, 7), lost(0, 3)};
    struct tutti_elastic_opts opts = opts_of(2, 10);

    refuse(&opts, &server, 1, -TUTTI_EINVAL, "server '0' of an elastic group (workers alone)");
    refuse(&opts, change, 2, -TUTTI_EINVAL, "losses are not in the order of time");
    opts.mtbf_ps = 1;
    refuse(&opts, change, 1, -TUTTI_EINVAL,
           "losses are drawn, and listed as well ('1' changes; one of both)");
    opts = opts_of(1, 10);
    refuse(&opts, change, 1, -TUTTI_EINVAL, "worker '1' is lost, or comes, of 1 (0 to 0)");
    opts.price = NULL;
    refuse(&opts, NULL, 0, -TUTTI_EINVAL, "an elastic group needs prices and a last step");
}

static int story(struct tutti_err *err)
{
    const struct tutti_servers_change change = lost(1, 500 * MS);
    struct tutti_elastic_opts opts = opts_of(3, 10);
    struct tutti_elastic elastic;

    opts.changes = &change;
    opts.change_count = 1;
    return tutti_elastic_play(&opts, &elastic, err);
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
