/* Parameter servers that lose a process: who goes on, who goes back to the newest checkpoint, and
 * who ends by name. */
#include <dirent.h>

#include "runtime/random.h"
#include "runtime/train/checkpoint.h"
#include "tests/runtime/servers_world.h"

enum { SLOW_US = 1000 };

/* Workers that take a while, so that there is a middle to kill somebody in. */
static void begin(uint32_t servers, uint32_t workers, uint64_t steps)
{
    cast_new(servers, workers, steps);
    for (uint32_t i = 0; i < workers; i++)
        play.slow_us[i] = SLOW_US;
}

static struct actor *find(enum tutti_servers_role role, uint32_t index)
{
    struct actor *a = cast->actor;

    while (a->role != role || a->index != index)
        a++;
    return a;
}

/* What those that are left say of it. */
static void check_said(const char *words, double wait_s)
{
    for (struct actor *a = cast->actor; a < cast->actor + CAST_MAX && a->role != 0; a++) {
        if (a->pid == 0)
            continue;
        if (!cast_reap(a, wait_s))
            TEST_FAIL("role %d %u has not ended", (int)a->role, a->index);
        else if (a->status == 0 || strstr(a->text, words) == NULL)
            TEST_FAIL("role %d %u: status %d: %s", (int)a->role, a->index, a->status, a->text);
    }
}

/* Times that the chief was told of a step again. A chief that comes back is not told of those that
 * the one before it was told of last. */
static uint32_t count_returns(void)
{
    uint32_t returns = 0;

    for (uint32_t i = 1; i < atomic_load(&cast->told_count); i++)
        returns += cast->told[i].step <= cast->told[i - 1].step;
    return returns;
}

/* Until a checkpoint is on the disk, however slow that is. */
static bool wait_saved(void)
{
    struct tutti_trainer_saved newest = {.is_there = false};
    const double due_s = cast_now_s() + 20;

    while (!newest.is_there && cast_now_s() < due_s &&
           tutti_trainer_newest(play.folder, &newest, NULL) == 0)
        cast_pause_us(500);
    return newest.is_there;
}

/* ---- the chief ------------------------------------------------------------------------------- */

TEST(a_chief_that_is_killed_and_started_again_goes_on_from_the_newest_checkpoint)
{
    uint64_t restored;

    begin(2, 2, 1500);
    play.params.has_chief = true;
    play.params.save_steps = 50;
    play.params.keep = 3;
    cast_make_folder();
    cast_start_all();
    REQUIRE(wait_saved());
    cast_kill(find(TUTTI_SERVERS_CHIEF, 0));
    (void)cast_start(TUTTI_SERVERS_CHIEF, 0);
    cast_end(30);
    restored = cast->start_step[atomic_load(&cast->starts) > 1 ? 0 : 63];
    for (uint32_t i = 1; i < atomic_load(&cast->starts) && i < 64; i++)
        if (cast->start_step[i] <= cast->start_step[i - 1])
            restored = cast->start_step[i];
    if (restored < 50 || restored % 50 != 0)
        TEST_FAIL("restored step %" PRIu64, restored);
    if (strstr(find(TUTTI_SERVERS_CHIEF, 0)->notes, "restored step") == NULL)
        TEST_FAIL("notes: %s", find(TUTTI_SERVERS_CHIEF, 0)->notes);
    CHECK_INT(count_returns(), 1);
    CHECK_INT(find(TUTTI_SERVERS_WORKER, 1)->result.steps, 1500);
    CHECK_INT(find(TUTTI_SERVERS_WORKER, 1)->result.set_up, 2);
    cast_remove_folder();
}

TEST(a_chief_that_does_not_come_back_is_named)
{
    begin(1, 2, 100000);
    play.params.has_chief = true;
    play.params.deadline_ps = TUTTI_PS_PER_S;
    cast_start_all();
    REQUIRE(cast_wait_step(20, 20));
    cast_kill(find(TUTTI_SERVERS_CHIEF, 0));
    check_said("the chief is not there for 1 s", 15);
}

TEST(others_wait_for_the_chief)
{
    begin(1, 2, 40);
    play.params.has_chief = true;
    (void)cast_start(TUTTI_SERVERS_WORKER, 0);
    (void)cast_start(TUTTI_SERVERS_WORKER, 1);
    (void)cast_start(TUTTI_SERVERS_SERVER, 0);
    cast_pause_us(200000);
    CHECK_INT(atomic_load(&cast->step), 0);
    (void)cast_start(TUTTI_SERVERS_CHIEF, 0);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 40);
}

/* ---- workers --------------------------------------------------------------------------------- */

TEST(asynchronous_training_goes_on_without_a_worker)
{
    begin(2, 3, 300);
    cast_start_all();
    REQUIRE(cast_wait_worker(2, 20));
    cast_kill(find(TUTTI_SERVERS_WORKER, 2));
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 300);
    CHECK_INT(count_returns(), 0);
}

TEST(a_worker_that_comes_back_takes_part_again)
{
    uint32_t late = 0;

    begin(1, 2, 400);
    cast_start_all();
    REQUIRE(cast_wait_worker(1, 20));
    cast_kill(find(TUTTI_SERVERS_WORKER, 1));
    (void)cast_start(TUTTI_SERVERS_WORKER, 1);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 400);
    for (uint32_t i = 300; i < 400; i++)
        late += cast->told[i].worker == 1;
    CHECK(late > 0);
}

static void lose_one_in_steps(uint32_t aggregate, enum tutti_late late)
{
    begin(1, 3, aggregate < 3 ? 1200 : 100000);
    play.params.synchronous = true;
    play.params.aggregate = aggregate;
    play.params.late = late;
    play.params.deadline_ps = aggregate < 3 ? 10 * TUTTI_PS_PER_S : TUTTI_PS_PER_S;
    cast_start_all();
    REQUIRE(cast_wait_worker(1, 20));
    cast_kill(find(TUTTI_SERVERS_WORKER, 1));
}

TEST(a_backup_stands_in_for_a_lost_worker)
{
    lose_one_in_steps(2, TUTTI_LATE_QUEUED);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 1200);
    lose_one_in_steps(2, TUTTI_LATE_ABORTED);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 1200);
}

TEST(steps_of_all_workers_end_by_name_without_one)
{
    lose_one_in_steps(3, TUTTI_LATE_QUEUED);
    check_said("worker 1 is not there for 1 s (--deadline), and a step is made of 3 gradients", 15);
}

TEST(a_worker_that_says_nothing_is_named)
{
    begin(1, 2, 100000);
    play.params.synchronous = true;
    play.params.late = TUTTI_LATE_ABORTED;
    play.params.deadline_ps = TUTTI_PS_PER_S;
    cast_start_all();
    REQUIRE(cast_wait_step(20, 20));
    (void)kill(find(TUTTI_SERVERS_WORKER, 1)->pid, SIGSTOP);
    (void)cast_reap(find(TUTTI_SERVERS_WORKER, 0), 15);
    if (strstr(find(TUTTI_SERVERS_WORKER, 0)->text, "nothing from worker 1 for 1 s") == NULL)
        TEST_FAIL("it said '%s'", find(TUTTI_SERVERS_WORKER, 0)->text);
    cast_kill(find(TUTTI_SERVERS_WORKER, 1));
    (void)cast_reap(find(TUTTI_SERVERS_SERVER, 0), 15);
}

/* ---- servers --------------------------------------------------------------------------------- */

TEST(a_lost_server_ends_all_by_name)
{
    for (uint32_t server = 0; server < 2; server++) {
        begin(2, 2, 100000);
        play.params.deadline_ps = 3 * TUTTI_PS_PER_S; /* others live, on a machine at work */
        cast_start_all();
        REQUIRE(cast_wait_step(20, 20));
        cast_kill(find(TUTTI_SERVERS_SERVER, server));
        check_said(server == 0 ? "parameter server 0" : "parameter server 1", 15);
    }
}

TEST(a_server_that_comes_back_is_set_to_the_newest_checkpoint)
{
    for (uint32_t server = 0; server < 2; server++) {
        begin(2, 2, 300);
        play.params.save_steps = 40;
        cast_make_folder();
        cast_start_all();
        REQUIRE(cast_wait_step(100, 20));
        cast_kill(find(TUTTI_SERVERS_SERVER, server));
        (void)cast_start(TUTTI_SERVERS_SERVER, server);
        cast_end(30);
        CHECK_INT(count_returns(), 1);
        CHECK_INT(find(TUTTI_SERVERS_WORKER, 0)->result.steps, 300);
        cast_remove_folder();
    }
}

/* ---- anybody --------------------------------------------------------------------------------- */

static void check_checkpoint(uint64_t seed)
{
    const struct tutti_checkpoint_source source = {.verify = true};
    struct tutti_checkpoint *c = NULL;
    struct tutti_err err = {.text = ""};

    if (tutti_checkpoint_open_newest(&source, play.folder, &c, &err) < 0 || c == NULL)
        TEST_FAIL("seed %" PRIu64 ": no whole checkpoint: %s", seed, err.text);
    else
        CHECK_INT(tutti_checkpoint_id(c).step, play.params.steps);
    tutti_checkpoint_close(c);
}

/* All was over as the victim was killed: whoever shows that ends by itself. */
static bool was_over(const struct actor *victim)
{
    const enum tutti_servers_role chief =
        play.params.has_chief ? TUTTI_SERVERS_CHIEF : TUTTI_SERVERS_WORKER;
    const struct actor *other = find(chief, 0);
    const double due_s = cast_now_s() + 2;
    siginfo_t info = {.si_pid = 0};

    if (atomic_load(&cast->step) < play.params.steps)
        return false;
    if (other == victim)
        other = find(TUTTI_SERVERS_SERVER, 0);
    while (info.si_pid == 0 && cast_now_s() < due_s &&
           waitid(P_PID, (id_t)other->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        cast_pause_us(1000);
    return info.si_pid != 0;
}

/* A worker that the others do not need may find that they have ended without it. */
static void reap_late(struct actor *worker)
{
    if (!cast_reap(worker, 40) ||
        (worker->status != 0 && strstr(worker->text, "cannot connect to") == NULL))
        TEST_FAIL("worker %u: ended %x, status %d: %s", worker->index, (unsigned)worker->ended,
                  worker->status, worker->text);
}

/* A process at random is killed after a time at random, and started again. */
static void play_at_random(uint64_t seed)
{
    struct tutti_random random;
    struct actor *victim;
    uint32_t all;

    tutti_random_seed(&random, seed);
    begin(1 + (uint32_t)tutti_random_below(&random, 2),
          2 + (uint32_t)tutti_random_below(&random, 2), 120);
    play.slow_us[0] = play.slow_us[1] = play.slow_us[2] = 500;
    play.params.has_chief = tutti_random_below(&random, 2) > 0;
    play.params.synchronous = tutti_random_below(&random, 2) > 0;
    play.params.aggregate = 1 + (uint32_t)tutti_random_below(&random, play.params.worker_count);
    play.params.late = (enum tutti_late)tutti_random_below(&random, 3);
    play.params.save_steps = 10 + tutti_random_below(&random, 30);
    (void)tutti_update_named(tutti_random_below(&random, 2) > 0 ? "adam" : "sgd",
                             &play.params.optimizer, NULL);
    cast_make_folder();
    cast_start_all();
    all = play.params.server_count + play.params.worker_count + play.params.has_chief;
    victim = &cast->actor[tutti_random_below(&random, all)];
    cast_pause_us((uint32_t)tutti_random_below(&random, 150000));
    cast_kill(victim);
    if (!was_over(victim)) {
        (void)cast_start(victim->role, victim->index);
        if (victim->role == TUTTI_SERVERS_WORKER && victim != find(TUTTI_SERVERS_WORKER, 0))
            reap_late(victim);
    }
    cast_end(40);
    check_checkpoint(seed);
    cast_remove_folder();
    if (test_failures > 0)
        TEST_FAIL("of seed %" PRIu64 ", where role %d %u was killed", seed, (int)victim->role,
                  victim->index);
}

TEST(whoever_is_killed_nothing_hangs_and_no_checkpoint_is_damaged)
{
    const uint64_t count = test_count(200, 20);

    for (uint64_t i = 0; i < count && test_failures == 0; i++)
        play_at_random(test_seed * 1000 + i);
}
