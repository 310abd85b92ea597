/* Intervals of steps: the residuals that are compiled in are read, the nearest class is found, and
 * what is no class is named. */
#include <string.h>

#include "runtime/status.h"
#include "tests/test.h"
#include "tools/train/interval.h"

static const char text[] = "# a remark\n"
                           "pytorch half one none 20 2 0.9 1.2\n"
                           "pytorch any one none 50 2 0.8 1.3 fitted\n"
                           "any any one none 500 9 0.7 2.0\n"
                           "any any several anchored 100 5 0.95 1.4\n"
                           "pytorch any one none 30 2 0.6 1.6 fitted divided\n"
                           "megatron half one none 40 3 0.9 1.1 divided\n"
                           "megatron any one none 60 4 0.9 1.2 divided\n";

static void read_all(struct tutti_interval all[TUTTI_INTERVALS_MAX], size_t *count)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_interval_parse("text", text, strlen(text), all, count, &err), err);
    CHECK_INT(*count, 7);
}

TEST(the_nearest_class_is_found)
{
    static const struct {
        struct tutti_interval wanted;
        uint32_t row_count; /* 0: none */
    } cases[] = {
        {{.framework = "pytorch", .precision = "half"}, 20},
        {{.framework = "pytorch", .precision = "full"}, 50},
        {{.framework = "pytorch", .precision = "half", .divided = true}, 30},
        {{.framework = "xla", .precision = "half", .divided = true}, 0},
        {{.framework = "megatron", .precision = "half", .divided = true}, 40},
        {{.framework = "megatron", .precision = "half"}, 40}, /* not all frameworks' 500 */
        {{.framework = "megatron", .precision = "full"}, 60},
        {{.framework = "megatron", .precision = "half", .several_hosts = true, .anchored = true},
         100},
        {{.framework = "xla", .precision = "half"}, 500},
        {{.framework = "xla", .precision = "half", .several_hosts = true, .anchored = true}, 100},
        {{.framework = "xla", .precision = "half", .several_hosts = true}, 0},
    };
    struct tutti_interval all[TUTTI_INTERVALS_MAX];
    size_t count;

    read_all(all, &count);
    CHECK(all[1].fitted);
    CHECK(!all[0].fitted);
    CHECK(all[4].fitted && all[4].divided && !all[1].divided);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_interval found = {.row_count = 0};

        CHECK(tutti_interval_find(all, count, &cases[i].wanted, &found) ==
              (cases[i].row_count > 0));
        CHECK_INT(found.row_count, cases[i].row_count);
    }
}

TEST(what_is_no_class_is_named)
{
    static const struct {
        const char *line;
        const char *why;
    } cases[] = {
        {"pytorch half one\n",
         "t: line 1: 'pytorch half one' (FRAMEWORK PRECISION HOSTS ANCHOR ROWS FAMILIES P10 P90 "
         "[fitted] [divided])"},
        {"# x\npytorch half two none 1 1 1 1\n",
         "t: line 2: 'two none' (one or several; none or anchored)"},
        {"pytorch half one none 1 1 2 1\n",
         "t: line 1: 'pytorch half one none 1 1 2 1' (rows, and 0 < P10 <= P90)"},
        {"pytorch half one none 1 1 1 1 near\n",
         "t: line 1: 'pytorch half one none 1 1 1 1 near' (FRAMEWORK PRECISION HOSTS ANCHOR ROWS "
         "FAMILIES P10 P90 [fitted] [divided])"},
    };
    struct tutti_interval all[TUTTI_INTERVALS_MAX];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_err err = {""};
        size_t count;

        CHECK_INT(
            tutti_interval_parse("t", cases[i].line, strlen(cases[i].line), all, &count, &err),
            -TUTTI_EINVAL);
        CHECK_TEXT(err.text, cases[i].why);
    }
}

/* Where a step of the series was measured the interval is no wider than where none was. Of divided
 * models it may be: a tenth of nanotron's rows took six times as long as such steps do, and a
 * series may begin with one of those. */
TEST(what_is_compiled_in_is_read)
{
    struct tutti_interval all[TUTTI_INTERVALS_MAX];
    struct tutti_err err = {""};
    size_t count;

    CHECK_OK(tutti_interval_parse("residuals", tutti_interval_text.text, tutti_interval_text.bytes,
                                  all, &count, &err),
             err);
    CHECK(count >= 20);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (!all[i].anchored && all[j].anchored && !all[i].divided && !all[j].divided &&
                all[i].several_hosts == all[j].several_hosts &&
                strcmp(all[i].framework, all[j].framework) == 0 &&
                strcmp(all[i].precision, all[j].precision) == 0 && all[j].row_count >= 20)
                CHECK(all[j].high / all[j].low <= all[i].high / all[i].low);
}

/* Data parallelism alone has the steps of its own framework where any were measured, be they of
 * divided models, and where there are enough like it no others. */
TEST(data_parallelism_has_its_own_framework)
{
    struct tutti_interval all[TUTTI_INTERVALS_MAX];
    struct tutti_err err = {""};
    size_t count;

    CHECK_OK(tutti_interval_parse("residuals", tutti_interval_text.text, tutti_interval_text.bytes,
                                  all, &count, &err),
             err);
    for (size_t i = 0; i < count; i++) {
        struct tutti_interval wanted = all[i];
        struct tutti_interval found = {.row_count = 0};

        wanted.divided = false;
        CHECK(tutti_interval_find(all, count, &wanted, &found));
        CHECK_TEXT(found.framework, all[i].framework);
        if (strcmp(found.framework, "nanotron") == 0 && found.several_hosts)
            CHECK(!found.divided && found.high < 1.5);
        if (strcmp(found.framework, "deepspeed") == 0)
            CHECK(!found.divided);
    }
}
