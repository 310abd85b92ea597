/* Generators for many ranks: the double binary tree is NCCL's, and programs are walked at once. */
#include <time.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "tests/runtime/coll_cases.h"

static struct tutti_schedule *generate(const char *algorithm, const struct tutti_shape *shape,
                                       uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT8, .count = count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate(algorithm, &params, shape, &schedule, &err), err);
    return schedule;
}

/* ---- the double binary tree is NCCL's -------------------------------------------------------- */

/* parent/child/child of every node, -1 for none, as NCCL 2.28 trees.cc computes them. */
static const struct {
    uint32_t n;
    const char *tree[2];
} nccl_trees[] = {
    {2, {"-1/-1/1 0/-1/-1", "1/-1/-1 -1/-1/0"}},
    {3, {"-1/-1/2 2/-1/-1 0/1/-1", "1/2/-1 -1/-1/0 0/-1/-1"}},
    {4, {"-1/-1/2 2/-1/-1 0/1/3 2/-1/-1", "1/-1/-1 3/2/0 1/-1/-1 -1/-1/1"}},
    {5, {"-1/-1/4 2/-1/-1 4/1/3 2/-1/-1 0/2/-1", "1/3/-1 -1/-1/0 3/-1/-1 0/2/4 3/-1/-1"}},
    {6,
     {"-1/-1/4 2/-1/-1 4/1/3 2/-1/-1 0/2/5 4/-1/-1",
      "1/-1/-1 5/3/0 3/-1/-1 1/4/2 3/-1/-1 -1/-1/1"}},
    {8,
     {"-1/-1/4 2/-1/-1 4/1/3 2/-1/-1 0/2/6 6/-1/-1 4/5/7 6/-1/-1",
      "1/-1/-1 3/2/0 1/-1/-1 7/5/1 5/-1/-1 3/6/4 5/-1/-1 -1/-1/3"}},
    {13,
     {"-1/-1/8 2/-1/-1 4/1/3 2/-1/-1 8/2/6 6/-1/-1 4/5/7 6/-1/-1 0/4/12 10/-1/-1 12/9/11 "
      "10/-1/-1 8/10/-1",
      "9/11/-1 -1/-1/9 3/-1/-1 5/2/4 3/-1/-1 9/3/7 7/-1/-1 5/6/8 7/-1/-1 1/5/0 11/-1/-1 0/10/12 "
      "11/-1/-1"}},
};

struct family {
    int64_t parent;
    int64_t children[2];
};

/* What the programs of one item say: an up lane hears the children, then tells the parent. */
static struct family family_of(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    struct family family = {.parent = -1, .children = {-1, -1}};
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    int heard = 0;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind == TUTTI_RECV && heard < 2)
            family.children[heard++] = step->peer;
        if (step->kind == TUTTI_SEND)
            family.parent = step->peer;
    }
    if (family.parent < 0) { /* the root's one child is its second */
        family.children[1] = family.children[0];
        family.children[0] = -1;
    }
    return family;
}

TEST(the_double_binary_tree_is_that_of_nccl)
{
    for (size_t i = 0; i < sizeof(nccl_trees) / sizeof(nccl_trees[0]); i++) {
        struct tutti_shape shape = tutti_shape_flat(nccl_trees[i].n);
        struct tutti_schedule *schedule = generate("double-binary-tree", &shape, 8);

        REQUIRE(schedule != NULL);
        for (uint32_t tree = 0; tree < 2; tree++) {
            char seen[512] = "";
            size_t used = 0;

            for (uint32_t rank = 0; rank < nccl_trees[i].n; rank++) {
                struct family family = family_of(schedule, rank, 2 * tree);

                used += (size_t)snprintf(seen + used, sizeof(seen) - used,
                                         "%s%" PRId64 "/%" PRId64 "/%" PRId64, rank == 0 ? "" : " ",
                                         family.parent, family.children[0], family.children[1]);
            }
            CHECK_TEXT(seen, nccl_trees[i].tree[tree]);
        }
        tutti_schedule_free(schedule);
    }
}

/* For any n: parents and children agree, and who passes on in one tree is a leaf in the other, but
 * for rank 0 in odd n. */
TEST(the_two_trees_share_the_work)
{
    for (uint32_t n = 2; n <= 300; n++) {
        struct tutti_shape shape = tutti_shape_flat(n);
        struct tutti_schedule *schedule = generate("double-binary-tree", &shape, 8);
        uint32_t busy_in_both = 0;

        REQUIRE(schedule != NULL);
        for (uint32_t rank = 0; rank < n; rank++) {
            uint32_t inner = 0;

            for (uint32_t tree = 0; tree < 2; tree++) {
                struct family family = family_of(schedule, rank, 2 * tree);

                for (int i = 0; i < 2; i++)
                    if (family.children[i] >= 0)
                        CHECK_INT(
                            family_of(schedule, (uint32_t)family.children[i], 2 * tree).parent,
                            rank);
                inner += family.children[0] >= 0 || family.children[1] >= 0;
            }
            busy_in_both += inner == 2;
        }
        CHECK_INT(busy_in_both, n % 2 == 1 && n > 1 ? 1 : 0);
        tutti_schedule_free(schedule);
    }
}

/* ---- a round costs what its steps cost ------------------------------------------------------- */

static void walk(const char *algorithm, const struct tutti_shape *shape, uint32_t stride)
{
    struct tutti_schedule *schedule = generate(algorithm, shape, UINT64_C(1) << 28);
    clock_t start = clock();
    uint64_t steps = 0;
    double ns;

    REQUIRE(schedule != NULL);
    for (uint32_t rank = 0; rank < shape->rank_count; rank += stride)
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
            steps += tutti_schedule_step_count(schedule, rank, lane);
    ns = (double)(clock() - start) / CLOCKS_PER_SEC * 1e9 / (double)steps;
    printf("%s, %u ranks: %" PRIu64 " steps, %.1f ns a step\n", algorithm, shape->rank_count, steps,
           ns);
    CHECK(ns < 5000); /* 20 to 30; a thousand if a step cost a look at every rank */
    tutti_schedule_free(schedule);
}

TEST(programs_of_thousands_of_ranks_are_walked_at_once)
{
    struct tutti_shape ring = tutti_shape_flat(4096);
    struct tutti_shape nest = tutti_shape_flat(1024);

    case_add(&nest, 8);
    case_add(&nest, 8);
    case_add(&nest, 16);
    walk("ring", &ring, 64);
    walk("double-binary-tree", &nest, 8);
    walk("hierarchical", &nest, 1);
    walk("torus", &nest, 1);
}
