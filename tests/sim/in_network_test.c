/* Pipelines through switches: what sets their pace, and what filling them takes. */
#include "sim/nccl/in_network.h"
#include "tests/test.h"

/* 8 GPUs, 16 channels, chunks of 64 KiB: loops of 8 MiB. */
static const struct tutti_in_network one_host = {
    .bytes = 64u << 20,
    .head_count = 8,
    .channel_count = 16,
    .host_count = 1,
    .chunk_bytes = 65536,
    .gpu_bytes_per_s = UINT64_C(337500000000), /* three quarters of 450 GB/s */
    .launch_ps = 10000000,
    .stage_ps = 2000000,
};

TEST(eight_loops_take_ten_where_two_stages_must_fill)
{
    /* A loop moves 8 MiB * 9/8 = 9437184 B a GPU: 27.962 us; (8 + 2) of them, the launch, and two
     * stages of 2 us. */
    CHECK_INT(tutti_in_network_time(&one_host) / 1000000, 293);
}

TEST(a_size_below_a_loop_fills_only_what_it_has)
{
    struct tutti_in_network small = one_host;

    small.bytes = 1u << 20; /* 1179648 B: 3.496 us, three times */
    CHECK_INT(tutti_in_network_time(&small) / 100000, 244);
}

TEST(large_sizes_run_at_the_pace_of_the_slower_way)
{
    struct tutti_in_network large = one_host;
    uint64_t doubled;

    large.bytes = UINT64_C(8) << 30;
    large.host_count = 4;
    large.form = TUTTI_IN_NETWORK_NVLS_TREE;
    large.port_bytes_per_s = UINT64_C(48000000000);
    doubled = (uint64_t)tutti_in_network_time(&large);
    large.bytes *= 2;
    doubled = (uint64_t)tutti_in_network_time(&large) - doubled;
    /* 8 GiB more over 8 ports of 48 GB/s, twice: 192 GB/s of all-reduce, as NCCL's own table says
     * for trees of H100 (45.5 GB/s a channel and less). */
    CHECK_INT((UINT64_C(8) << 30) * 100 / (doubled / 1000) + 1, 19200); /* rounded up times */
    large.host_count = 2; /* then the switches bind: 337.5 * 8/9 = 300 GB/s */
    doubled = (uint64_t)tutti_in_network_time(&large);
    large.bytes /= 2;
    doubled -= (uint64_t)tutti_in_network_time(&large);
    CHECK_INT((UINT64_C(8) << 30) * 100 / (doubled / 1000), 30000);
}

TEST(what_takes_longer_than_the_clock_counts_saturates)
{
    struct tutti_in_network large = one_host;
    struct tutti_in_network slow = one_host;

    large.bytes = UINT64_C(1) << 62; /* 2^39 loops of 28 us: 178 days */
    CHECK(tutti_in_network_time(&large) == INT64_MAX);
    slow.gpu_bytes_per_s = slow.port_bytes_per_s = 1; /* a loop alone */
    CHECK(tutti_in_network_time(&slow) == INT64_MAX);
    slow.host_count = 64;
    CHECK(tutti_in_network_time(&slow) == INT64_MAX);
    slow.form = TUTTI_IN_NETWORK_NVLS_TREE;
    CHECK(tutti_in_network_time(&slow) == INT64_MAX);
}

TEST(each_doubling_of_the_hosts_adds_a_level_up_and_down)
{
    struct tutti_in_network few = one_host;
    tutti_ps before;

    few.bytes = 1u << 20;
    few.form = TUTTI_IN_NETWORK_NVLS_TREE;
    few.port_bytes_per_s = UINT64_C(48000000000);
    few.net_ps = 14000000;
    few.host_count = 4;
    before = tutti_in_network_time(&few);
    few.host_count = 8;
    /* 2 * (14 us + 2 us + 131072 B at 48 GB/s = 2.731 us) */
    CHECK_INT((tutti_in_network_time(&few) - before) / 1000, 37461);
}

TEST(one_loop_of_two_hosts_goes_over_a_port_once)
{
    struct tutti_in_network pair = one_host;
    tutti_ps one_loop;

    pair.bytes = 8u << 20;
    pair.host_count = 2;
    pair.form = TUTTI_IN_NETWORK_NVLS_TREE;
    pair.port_bytes_per_s = UINT64_C(48000000000);
    pair.net_ps = 14000000;
    one_loop = tutti_in_network_time(&pair);
    /* Launch, 2 * (2 us + 27.962 us) before and behind; half of 1 MiB up one tree and down again,
     * the other half by the other tree meanwhile: 21.845 us, and 2 * (14 us + 2 us). */
    CHECK_INT(one_loop / 1000, 123769);
    pair.bytes *= 2; /* the second loop only follows, at the pace of the switches */
    CHECK_INT((tutti_in_network_time(&pair) - one_loop) / 1000, 27962);
}

TEST(hosts_in_the_middle_of_a_tree_have_two_below_them)
{
    struct tutti_in_network four = one_host;

    four.bytes = 8u << 20;
    four.host_count = 4;
    four.form = TUTTI_IN_NETWORK_NVLS_TREE;
    four.port_bytes_per_s = UINT64_C(48000000000);
    /* 10 + 2 * 29.962 us; two levels up and down of 2 us and 21.845 us each, of which the root's
     * are half. */
    CHECK_INT(tutti_in_network_time(&four) / 1000, 143460);
}

/* Heads send their part of a loop into the network and have it back in the same time; the way there
 * and back counts once, and beginning to send and to multicast two stages. */
TEST(a_network_that_adds_up_is_one_stage_whatever_the_hosts)
{
    struct tutti_in_network pair = one_host;
    tutti_ps alone;

    pair.bytes = 1u << 20;
    alone = tutti_in_network_time(&pair);
    pair.host_count = 64;
    pair.port_bytes_per_s = UINT64_C(48000000000);
    pair.net_ps = 3000000;
    pair.net_loop_ps = 1000000;
    /* 128 KiB of a head at 48 GB/s: 2731 ns. Alone NVSwitch added up in 3496 ns, now hidden. */
    CHECK_INT((tutti_in_network_time(&pair) - alone) / 1000, 2 * 2000 + 3000 + 1000 + 2731 - 3496);
}

/* Four GPUs in a chain, one channel of 1 MiB, at 100 GB/s: three hops up and three down, then into
 * the network. A second loop comes as long after as a GPU sends it twice. */
TEST(a_chain_takes_a_stage_a_gpu_on_either_way)
{
    struct tutti_in_network chain = {
        .form = TUTTI_IN_NETWORK_COLLNET_CHAIN,
        .bytes = 1u << 20,
        .gpu_count = 4,
        .head_count = 1,
        .channel_count = 1,
        .host_count = 2,
        .chunk_bytes = 1u << 20,
        .gpu_bytes_per_s = UINT64_C(100000000000),
        .port_bytes_per_s = UINT64_C(50000000000),
        .stage_ps = 1000000,
        .net_ps = 5000000,
    };
    tutti_ps one_loop = tutti_in_network_time(&chain);

    CHECK_INT(one_loop / 1000, 6 * (1000 + 10486) + 5000 + 2 * 1000 + 20972 - 2);
    chain.bytes *= 2;
    CHECK_INT((tutti_in_network_time(&chain) - one_loop) / 1000, 20971);
}

/* What each of four GPUs sends of 4 MiB in loops of four heads: 3 MiB of its own, 3 of its sums. */
TEST(heads_of_collnet_direct_send_their_sums_to_all)
{
    struct tutti_in_network direct = {
        .form = TUTTI_IN_NETWORK_COLLNET_DIRECT,
        .bytes = UINT64_C(4) << 20,
        .gpu_count = 4,
        .head_count = 4,
        .channel_count = 1,
        .host_count = 2,
        .chunk_bytes = 1u << 20,
        .gpu_bytes_per_s = UINT64_C(100000000000),
        .port_bytes_per_s = UINT64_C(50000000000),
    };
    tutti_ps one_loop = tutti_in_network_time(&direct);

    CHECK_INT(one_loop / 1000, 2 * 31457 + 20971 + 1);
    direct.bytes *= 2;
    CHECK_INT((tutti_in_network_time(&direct) - one_loop) / 1000, 62914);
}
