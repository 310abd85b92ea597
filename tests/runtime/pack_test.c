/* How gradients are grouped for reduction: each framework's rule, by examples and by random models.
 */
#include "runtime/pack.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

enum { TEXT_BYTES = 1024, VARIABLES_MAX = 40 };

/* "[first..last: elements at first_element, ready] ...", the variables of a pack and what it has.
 */
static const char *text_of(const struct tutti_packs *packs, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; packs != NULL && i < packs->pack_count && used < TEXT_BYTES; i++) {
        const struct tutti_pack *pack = &packs->pack[i];

        used += (size_t)snprintf(
            text + used, TEXT_BYTES - used, "%s%s%u-%u:%llu@%llu", i == 0 ? "" : " ",
            pack->sparse ? "sparse " : "", pack->first_variable, pack->last_variable,
            (unsigned long long)pack->elements, (unsigned long long)pack->first_element);
    }
    return text;
}

static void expect_packs(const struct tutti_pack_params *params, const char *expected)
{
    struct tutti_packs *packs = NULL;
    struct tutti_err err = {""};
    char text[TEXT_BYTES];

    CHECK_OK(tutti_packs_new(params, &packs, &err), err);
    CHECK_TEXT(text_of(packs, text), expected);
    tutti_packs_free(packs);
}

static struct tutti_pack_params params_of(enum tutti_pack_rule rule, uint64_t limit,
                                          const uint64_t *elements, uint32_t count)
{
    return (struct tutti_pack_params){.size = sizeof(struct tutti_pack_params),
                                      .rule = rule,
                                      .element_bytes = 4,
                                      .limit = limit,
                                      .variable_count = count,
                                      .elements = elements};
}

TEST(pieces_are_equal_and_the_last_takes_the_remainder)
{
    static const uint64_t elements[] = {5, 3, 2, 1};
    struct tutti_pack_params params = params_of(TUTTI_PACK_PIECES, 1, elements, 4);
    struct tutti_packs *packs = NULL;
    struct tutti_err err = {""};

    expect_packs(&params, "0-3:11@0");
    params.limit = 2;
    expect_packs(&params, "0-0:5@0 1-3:6@5");
    params.limit = 3;
    expect_packs(&params, "0-0:3@0 0-1:3@3 1-3:5@6");
    params.limit = 100; /* pieces of nothing, and one of everything */
    expect_packs(&params, "0-3:11@0");
    params.limit = 0; /* a pack a variable, the last gradient first */
    expect_packs(&params, "3-3:1@10 2-2:2@8 1-1:3@5 0-0:5@0");
    params.limit = 2;
    CHECK_OK(tutti_packs_new(&params, &packs, &err), err);
    REQUIRE(packs != NULL);
    CHECK_INT(packs->pack[1].ready_variable, 0); /* all wait for the concatenation */
    tutti_packs_free(packs);
}

TEST(packs_of_bytes_per_pack_exceed_it)
{
    static const uint64_t elements[] = {10, 10, 10, 10, 10, 100};
    struct tutti_pack_params params = params_of(TUTTI_PACK_EXCEED, 80, elements, 6);

    expect_packs(&params, "5-5:100@50 2-4:30@20 0-1:20@0"); /* 80 bytes do not exceed 80 */
    params.limit = 79;
    expect_packs(&params, "5-5:100@50 3-4:20@30 1-2:20@10 0-0:10@0");
    params.limit = 0;
    expect_packs(&params, "0-5:150@0");
}

/* What torch._C._distributed_c10d._compute_bucket_assignment_by_size (torch 2.2.2) returns for
 * three Linear(512, 512) with caps of 1 MiB: [[0], [1, 2], [3, 4], [5]]; its list is in the order
 * of readiness, ours in that of forward. */
TEST(buckets_are_those_of_ddp)
{
    static const uint64_t elements[] = {512, 262144, 512, 262144, 512, 262144};
    struct tutti_pack_params params = params_of(TUTTI_PACK_REACH, 1 << 20, elements, 6);

    expect_packs(&params, "5-5:262144@525824 3-4:262656@263168 1-2:262656@512 0-0:512@0");
    params.limit = 25 << 20;
    params.first_limit = 1 << 20;
    expect_packs(&params, "5-5:262144@525824 0-4:525824@0");
    params.first_limit = (1 << 20) + 1;
    expect_packs(&params, "4-5:262656@525312 0-3:525312@0");
}

TEST(fusion_buffers_are_not_exceeded)
{
    static const uint64_t elements[] = {10, 10, 10, 50, 10, 10};
    static const tutti_ps ready[] = {600, 500, 400, 300, 200, 100};
    struct tutti_pack_params params = params_of(TUTTI_PACK_FIT, 80, elements, 6);

    expect_packs(&params, "4-5:20@80 3-3:50@30 1-2:20@10 0-0:10@0");
    params.limit = 1000;
    params.ready_ps = ready;
    params.cycle_ps = 250; /* found at 250, 500 and 750 */
    expect_packs(&params, "4-5:20@80 1-3:70@10 0-0:10@0");
}

TEST(sparse_variables_stay_apart)
{
    static const uint64_t elements[] = {1000, 10, 20, 500, 30};
    static const bool sparse[] = {true, false, false, true, false};
    struct tutti_pack_params params = params_of(TUTTI_PACK_EXCEED, 0, elements, 5);

    params.sparse = sparse;
    expect_packs(&params, "1-4:60@0 sparse 3-3:500@1000 sparse 0-0:1000@0");
    params.rule = TUTTI_PACK_PIECES;
    params.limit = 2;
    expect_packs(&params, "1-2:30@0 4-4:30@30 sparse 3-3:500@1000 sparse 0-0:1000@0");
    params.rule = TUTTI_PACK_REACH;
    params.limit = 160; /* the bucket of 4 and 2 goes on past the sparse variable 3 */
    expect_packs(&params, "sparse 3-3:500@1000 2-4:50@10 sparse 0-0:1000@0 1-1:10@0");
}

TEST(nonsense_is_refused)
{
    static const uint64_t elements[] = {UINT64_MAX / 8, 1};
    struct tutti_pack_params params = params_of(TUTTI_PACK_PIECES, 1u << 30, elements, 2);
    struct tutti_packs *packs = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_packs_new(&params, &packs, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'1073741824' packs (at most 1048576)");
    params.limit = 1;
    params.element_bytes = 16;
    CHECK_INT(tutti_packs_new(&params, &packs, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "gradients of more than 2^63 bytes");
    params.element_bytes = 0;
    CHECK_INT(tutti_packs_new(&params, &packs, &err), -TUTTI_EINVAL);
    CHECK(packs == NULL);
}

/* Whatever the rule: dense packs cover the concatenation once, and sizes are as the rule has them.
 */
static void check_cover(const struct tutti_pack_params *params, const struct tutti_packs *packs)
{
    uint64_t covered[2] = {0, 0};
    uint64_t whole[2] = {0, 0};

    for (uint32_t i = 0; i < params->variable_count; i++)
        whole[params->sparse[i]] += params->elements[i];
    for (uint32_t i = 0; i < packs->pack_count; i++) {
        const struct tutti_pack *pack = &packs->pack[i];

        covered[pack->sparse] += pack->elements;
        CHECK(pack->first_variable <= pack->last_variable);
        CHECK(pack->ready_variable <= pack->first_variable);
        for (uint32_t j = 0; j < i; j++)
            CHECK(packs->pack[j].sparse != pack->sparse ||
                  packs->pack[j].first_element >= pack->first_element + pack->elements ||
                  pack->first_element >= packs->pack[j].first_element + packs->pack[j].elements);
    }
    CHECK(covered[0] == whole[0]);
    CHECK(covered[1] == whole[1]);
}

TEST(random_models_are_covered_once)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t k = 0; k < test_count(20000, 2000); k++) {
        uint64_t elements[VARIABLES_MAX];
        bool sparse[VARIABLES_MAX];
        uint32_t count = (uint32_t)tutti_random_below(&random, VARIABLES_MAX + 1);
        struct tutti_pack_params params = params_of(
            (enum tutti_pack_rule)tutti_random_below(&random, 4),
            tutti_random_below(&random, 2) * tutti_random_below(&random, 300), elements, count);
        struct tutti_packs *packs = NULL;
        struct tutti_err err = {""};

        for (uint32_t i = 0; i < count; i++) {
            elements[i] = tutti_random_below(&random, 50) * tutti_random_below(&random, 3);
            sparse[i] = tutti_random_below(&random, 5) == 0;
        }
        params.sparse = sparse;
        params.first_limit = tutti_random_below(&random, 40);
        CHECK_OK(tutti_packs_new(&params, &packs, &err), err);
        REQUIRE(packs != NULL);
        check_cover(&params, packs);
        tutti_packs_free(packs);
    }
}

static int story(struct tutti_err *err)
{
    static const uint64_t elements[] = {1, 2, 3};
    struct tutti_pack_params params = params_of(TUTTI_PACK_EXCEED, 4, elements, 3);
    struct tutti_packs *packs = NULL;
    int status = tutti_packs_new(&params, &packs, err);

    tutti_packs_free(packs);
    return status;
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}

/* Rows of 8 floats and an 8-byte index: 40 bytes a row. */
TEST(slices_are_gathered_lengths_first)
{
    static const struct tutti_slices slices = {
        .rows = 1000, .row_elements = 8, .element_bytes = 4, .index_bytes = 8};
    static const uint64_t equal[] = {5, 5, 5, 5};
    static const uint64_t unequal[] = {5, 2, 7, 0};
    struct tutti_slices_bytes bytes = tutti_slices_gather(&slices, equal, 4, 1);

    CHECK_INT(bytes.length_bytes, 12);
    CHECK_INT(bytes.slice_bytes, 3 * 5 * 40);
    CHECK_INT(bytes.padding_bytes, 0);
    bytes = tutti_slices_gather(&slices, unequal, 4, 1);
    CHECK_INT(bytes.slice_bytes, (5 + 7 + 0) * 40);
    CHECK_INT(bytes.padding_bytes, (3 * 7 - 12) * 40);
    bytes = tutti_slices_gather(&slices, unequal, 4, 3);
    CHECK_INT(bytes.slice_bytes, 14 * 40);
    CHECK_INT(bytes.padding_bytes, (21 - 14) * 40);
    bytes = tutti_slices_gather(&slices, unequal, 1, 0);
    CHECK_INT(bytes.length_bytes + bytes.slice_bytes + bytes.padding_bytes, 0);
}

/* The first number of rows at which the dense way is no more bytes, by both counted. */
TEST(the_crossover_to_dense_is_where_the_bytes_cross)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t k = 0; k < 2000; k++) {
        uint32_t n = 2 + (uint32_t)tutti_random_below(&random, 30);
        struct tutti_slices slices = {.rows = 1 + tutti_random_below(&random, 500),
                                      .row_elements = 1 + tutti_random_below(&random, 64),
                                      .element_bytes = 1u << tutti_random_below(&random, 4),
                                      .index_bytes = 4u << tutti_random_below(&random, 2)};
        uint64_t dense = slices.rows * slices.row_elements * slices.element_bytes * 2 * (n - 1);
        uint64_t rows = tutti_slices_densify_rows(&slices, n);
        uint64_t seen = 0;
        bool crossed = false;

        for (; !crossed; seen += !crossed) { /* all ranks together */
            uint64_t touched[32];
            struct tutti_slices_bytes bytes;

            for (uint32_t i = 0; i < n; i++)
                touched[i] = seen;
            bytes = tutti_slices_gather(&slices, touched, n, 0);
            crossed = n * (bytes.length_bytes + bytes.slice_bytes) >= dense;
        }
        if (seen != rows)
            TEST_FAIL("%u ranks: bytes cross at %llu rows, not at %llu", n,
                      (unsigned long long)seen, (unsigned long long)rows);
    }
}
