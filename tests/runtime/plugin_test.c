/* Plugins: the example is loaded, proved, predicted among the others and really run, by a program
 * that uses libtutti.so and by the command; what is no plugin of this version is refused in a line.
 */
#include <sys/wait.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/test.h"
#include "topo/topo.h"

#define PLUGINS TUTTI_BINARY_DIR "/tests/plugins/"

static struct tutti_algorithm_set *load(const char *plugin, int expected, const char *message)
{
    struct tutti_algorithm_set *set = NULL;
    struct tutti_err err = {""};
    char path[1024];
    int status = tutti_algorithm_set_new(&set, &err);

    (void)snprintf(path, sizeof(path), PLUGINS "%s.so", plugin);
    if (status == 0)
        status = tutti_algorithm_load(set, path, NULL, NULL, &err);
    CHECK_INT(status, expected);
    if (message != NULL && strstr(err.text, message) == NULL)
        TEST_FAIL("\"%s\" does not say \"%s\"", err.text, message);
    return set;
}

static bool skip(void)
{
    if (tutti_algorithm_loads())
        return false;
    test_skip_reason = "this build has no dlopen";
    return true;
}

TEST(the_example_is_proved_for_all_powers_of_two)
{
    struct tutti_algorithm_set *set = skip() ? NULL : load("own_algorithm", 0, NULL);
    struct tutti_coll_params params = {.count = 37, .op = TUTTI_AVG, .added = set};
    struct tutti_err err = {""};

    for (uint32_t n = 2; n <= 64 && set != NULL; n *= 2) {
        struct tutti_shape shape = tutti_shape_flat(n);
        struct tutti_schedule *schedule = NULL;

        CHECK_OK(tutti_coll_generate("swing", &params, &shape, &schedule, &err), err);
        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_schedule_check(schedule, &err), err);
        CHECK_OK(tutti_schedule_prove(schedule, &err), err);
        tutti_schedule_free(schedule);
    }
    tutti_algorithm_set_free(set);
}

/* On a ring of 8 the partners of swing are 1, 1 and 3 hops away, those of recursive doubling 1, 2
 * and 4: of empty messages the one takes 5 latencies, the other 7. */
TEST(the_example_is_predicted_and_wins_where_its_paper_says)
{
    struct tutti_algorithm_set *set = skip() ? NULL : load("own_algorithm", 0, NULL);
    struct tutti_ask ask = {
        .size = sizeof(ask), .algorithm = "swing", .params.added = set, .empty = true};
    struct tutti_topo *topo = NULL;
    struct tutti_answer answer = {0};
    struct tutti_err err = {""};

    if (set == NULL)
        return;
    CHECK_OK(tutti_topo_from_spec("torus:8,bw=1GB/s,lat=1us", &topo, &err), err);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.time_ps, 5 * TUTTI_PS_PER_US);
    ask.algorithm = "recursive-doubling";
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    CHECK_INT(answer.time_ps, 7 * TUTTI_PS_PER_US);
    tutti_topo_free(topo);
    tutti_algorithm_set_free(set);
}

TEST(what_is_no_plugin_of_this_version_is_refused)
{
    if (skip())
        return;
    tutti_algorithm_set_free(load("missing", -TUTTI_EINVAL, "missing.so': cannot be loaded: "));
    tutti_algorithm_set_free(load("no_symbol", -TUTTI_EINVAL, "it has no symbol 'tutti_plugin'"));
    tutti_algorithm_set_free(
        load("other_version", -TUTTI_EINVAL, "it is a plugin of version '2', of "));
}

TEST(a_plugin_is_added_as_a_whole_or_not_at_all)
{
    struct tutti_algorithm_set *set;
    size_t count;

    if (skip())
        return;
    set = load("name_taken", -TUTTI_EINVAL, "there is an algorithm 'ring' already");
    (void)tutti_algorithms(&count);
    CHECK(tutti_algorithm_at(set, count) == NULL);
    tutti_algorithm_set_free(set);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Runs it, and looks for `text` in what it prints. */
static void command(const char *words, int exit_code, const char *text)
{
    static char seen[1 << 16];
    char line[2048];
    size_t bytes;
    FILE *out;
    int status;

    (void)snprintf(line, sizeof(line), "cd '" PLUGINS "' && '" TUTTI_BINARY_DIR "/tutti' %s 2>&1",
                   words);
    out = popen(line, "r");
    REQUIRE(out != NULL);
    bytes = fread(seen, 1, sizeof(seen) - 1, out);
    seen[bytes] = '\0';
    status = pclose(out);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != exit_code || strstr(seen, text) == NULL)
        TEST_FAIL("tutti %s: exit %d, expected %d and \"%s\":\n%s", words, WEXITSTATUS(status),
                  exit_code, text, seen);
}

TEST(the_command_takes_a_plugin_as_an_algorithm)
{
    if (skip())
        return;
    command("schedule prove -a own_algorithm.so -g 16 -b 1M", 0, "ok: swing, allreduce of ");
    command("schedule show -a ./own_algorithm.so -g 2 -b 8", 0, "REDUCE out+0 = in+0 op scratch+0");
    command("predict torus:16 -a ring,own_algorithm.so -b 4K --format csv", 0, ",swing,none,");
    command("predict torus:8x8 -a auto,own_algorithm.so -b 64K --format json", 0, "\"results\"");
    command("compare torus:16 -a all,own_algorithm.so -b 4K --format csv", 0, ",swing,none,");
    command("compare torus:16,bw=50GB/s,lat=1us -a all,own_algorithm.so -b 16K --format csv", 0,
            "16384,4096,1,swing,none,12.29"); /* as tools/examples/README.md has it */
    command("run -B threads -g 4 -a own_algorithm.so -b 64K --format csv", 0, ",swing,none,");
    command("run -B sim --topo torus:4 -a all,own_algorithm.so -b 4K --format csv", 0, ",swing,");
    command("doctor", 0, "plugins");
}

TEST(data_are_right)
{
    if (skip())
        return;
    command("run -B threads -g 8 -d int32 -a own_algorithm.so -b 20000 -n 3 -w 1 | tail -1 | "
            "grep -c ' 0$'",
            0, "1");
}

TEST(the_command_refuses_bad_plugins_in_one_line)
{
    if (skip())
        return;
    command("predict torus:16 -a ./no_symbol.so", 2,
            "tutti predict: option '-a': plugin './no_symbol.so': it has no symbol 'tutti_plugin' "
            "(const struct tutti_plugin, coll.h)\n");
    command("compare torus:16 -a all,other_version.so", 2, "it is a plugin of version '2'");
    command("run -B threads -a name_taken.so", 2, "there is an algorithm 'ring' already");
    command("run -B threads -g 2 -a ./out_of_bounds.so -b 4K", 1, "algorithm 'past': ");
    command("schedule check -g 2 -a ./out_of_bounds.so -b 4K", 1, "past: rank 0, lane 0, step 0");
    command("predict torus:16 -c allgather -a own_algorithm.so", 2,
            "no algorithm 'swing' for allgather (ring ");
    command("predict torus:6 -a own_algorithm.so -b 1K", 2, "swing is for 2, 4, 8, ... ranks");
    command("predict torus:16 -a ring,all,own_algorithm.so", 2, "'all' stands among others");
}
