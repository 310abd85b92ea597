/* The forms of trees: binomial, chain, star, and NCCL's pair of balanced binary trees.
 *
 * Balanced (NCCL 2.28 trees.cc, after Sanders, Speck & Traeff 2009): with b the lowest set bit of a
 * node r > 0, the children are r - b/2 and r + b/2, the latter pulled in until it exists; node 0
 * hangs above with the largest power of two below n as its only child. */
#include "runtime/coll/tree.h"

static uint32_t lowest_bit(uint32_t node)
{
    return node & (~node + 1);
}

static uint32_t largest_power_below(uint32_t n)
{
    uint32_t power = 1;

    assert(n >= 2);
    while (power < (n + 1) / 2)
        power *= 2;
    return power;
}

static uint32_t balanced_parent(uint32_t n, uint32_t node)
{
    uint64_t bit = lowest_bit(node);
    uint64_t up = (node ^ bit) | (bit << 1);

    return (uint32_t)(up < n ? up : node ^ bit);
}

/* Offset of the second child of a node with lowest bit `bit`, 0 if there is none. */
static uint32_t balanced_right(uint32_t n, uint32_t node, uint32_t bit)
{
    uint32_t offset = bit / 2;

    while (offset > 0 && (uint64_t)node + offset >= n)
        offset /= 2;
    return offset;
}

uint32_t tutti_tree_parent(enum tree_kind kind, uint32_t n, uint32_t node)
{
    assert(node < n);
    if (node == 0)
        return TREE_NONE;
    switch (kind) {
    case TREE_BINOMIAL:
        return node & (node - 1);
    case TREE_CHAIN:
        return node - 1;
    case TREE_BALANCED:
        return balanced_parent(n, node);
    case TREE_STAR:
    case TREE_HOSTS:
        break;
    }
    return 0;
}

static uint32_t binomial_child_count(uint32_t n, uint32_t node)
{
    uint64_t limit = node == 0 ? n : lowest_bit(node);
    uint32_t count = 0;

    while ((UINT64_C(1) << count) < limit && node + (UINT64_C(1) << count) < n)
        count++;
    return count;
}

uint32_t tutti_tree_child_count(enum tree_kind kind, uint32_t n, uint32_t node)
{
    uint32_t bit = lowest_bit(node);

    assert(node < n);
    switch (kind) {
    case TREE_BINOMIAL:
        return binomial_child_count(n, node);
    case TREE_CHAIN:
        return node + 1 < n ? 1 : 0;
    case TREE_BALANCED:
        if (node == 0)
            return 1;
        return bit == 1 ? 0 : 1 + (balanced_right(n, node, bit) > 0 ? 1u : 0u);
    case TREE_STAR:
    case TREE_HOSTS:
        break;
    }
    return node == 0 ? n - 1 : 0;
}

uint32_t tutti_tree_child(enum tree_kind kind, uint32_t n, uint32_t node, uint32_t index)
{
    uint32_t bit = lowest_bit(node);

    assert(index < tutti_tree_child_count(kind, n, node));
    switch (kind) {
    case TREE_BINOMIAL:
        return node + (UINT32_C(1) << index);
    case TREE_CHAIN:
        return node + 1;
    case TREE_BALANCED:
        if (node == 0)
            return largest_power_below(n);
        return index == 0 ? node - bit / 2 : node + balanced_right(n, node, bit);
    case TREE_STAR:
    case TREE_HOSTS:
        break;
    }
    return index + 1;
}

uint32_t tutti_tree_double_node(uint32_t tree, uint32_t n, uint32_t rank)
{
    if (tree == 0)
        return rank;
    return n % 2 == 0 ? n - 1 - rank : ring_sub(rank, 1, n);
}

uint32_t tutti_tree_double_rank(uint32_t tree, uint32_t n, uint32_t node)
{
    if (tree == 0)
        return node;
    return n % 2 == 0 ? n - 1 - node : ring_add(node, 1, n);
}
