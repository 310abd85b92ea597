/* What NCCL's own topology, search and tuning code gave for machines written by hand, run offline
 * on graph XML without a GPU: versions 2.28.9 and 2.30.7. Graphs are those before ring and tree are
 * set to the smaller channel count; `channels` is after doubling. Rows are "Algorithm/Protocol
 * latency_us/algbw_GBps", one decimal; what is not listed is not available. Picks are "bytes:
 * Algorithm/Protocol(time)" for powers of two from that size on; sizes of AG are n-fold totals. */
#ifndef TUTTI_TESTS_SIM_NCCL_NCCL_VECTORS_H
#define TUTTI_TESTS_SIM_NCCL_NCCL_VECTORS_H

struct nccl_vector {
    const char *machine;
    unsigned nodes, ranks;
    const char *versions;
    double max_bw_GBps, total_bw_GBps;
    const char *graphs; /* "name[PATTERN] channels x bwIntra/bwInter typeIntra/typeInter same" */
    unsigned channels;
    const char *allreduce; /* rows */
    const char *gather;    /* all-gather and reduce-scatter */
    const char *broadcast;
    const char *allreduce_picks;
    const char *gather_picks;
    const char *allreduce_times; /* "bytes:us" */
};

static const struct nccl_vector nccl_vectors[] = {
    {"H100x8", 1, 8, "2.28.9 2.30.7", 370.8, 370.8,
     "ring 12x30/30 NVL/PIX same; tree[BALANCED_TREE] 12x30/30 NVL/PIX same; "
     "nvls 8x40/60 NVL/PIX",
     24,
     "Tree/LL 15.2/43.6; Tree/LL128 31.5/128.8; Tree/Simple 64.4/165.6; Ring/LL "
     "15.0/80.6; Ring/LL128 40.6/189.3; Ring/Simple 56.0/205.7; NVLS/Simple "
     "25.0/272.0",
     "Ring/LL 10.8/161.1; Ring/LL128 27.3/378.5; Ring/Simple 32.2/411.4; "
     "NVLS/Simple 25.0/208.2",
     "Ring/LL 7.2/141.0; Ring/LL128 15.9/331.2; Ring/Simple 11.8/360.0",
     "8:Ring/LL(15.0us) 2097152:NVLS/Simple(32.7us)",
     "8:Ring/LL(10.8us) 8388608:Ring/LL128(49.5us) 33554432:Ring/Simple(113.8us)",
     "1024:15.01 16384:15.20 262144:18.25 4194304:40.42 67108864:271.72 "
     "1073741824:3972.58"},
    {"H100x8", 2, 16, "2.28.9 2.30.7", 48.0, 370.8,
     "ring 8x48/48 NVL/PIX crossNic2; tree[TREE] 8x48/48 NVL/PIX; nvls 8x40/48 "
     "NVL/PIX",
     16,
     "Tree/LL 25.2/16.6; Tree/LL128 48.5/124.8; Tree/Simple 92.4/140.8; Ring/LL "
     "40.0/20.8; Ring/LL128 75.2/156.6; Ring/Simple 131.6/204.8; "
     "NVLSTree/Simple 66.8/246.2",
     "Ring/LL 23.3/41.6; Ring/LL128 44.6/313.2; Ring/Simple 70.0/409.6",
     "Ring/LL 49.8/39.0; Ring/LL128 78.0/293.6; Ring/Simple 232.4/384.0",
     "8:Tree/LL(25.2us) 262144:Tree/LL128(52.0us) "
     "2097152:NVLSTree/Simple(75.3us)",
     "8:Ring/LL(23.3us) 1048576:Ring/LL128(47.9us) 67108864:Ring/Simple(233.8us)",
     "1024:25.27 16384:26.61 262144:52.00 4194304:83.84 67108864:339.39 "
     "1073741824:4428.29"},
    {"H100x8", 4, 32, "2.28.9 2.30.7", 48.0, 370.8,
     "ring 8x48/48 NVL/PIX crossNic2; tree[TREE] 8x48/48 NVL/PIX; nvls 8x40/48 "
     "NVL/PIX",
     16,
     "Tree/LL 35.2/8.7; Tree/LL128 65.5/98.6; Tree/Simple 120.4/122.4; Ring/LL "
     "78.8/10.5; Ring/LL128 144.4/151.5; Ring/Simple 282.8/198.2; "
     "NVLSTree/Simple 108.6/187.9",
     "Ring/LL 42.7/21.1; Ring/LL128 79.2/303.1; Ring/Simple 145.6/396.4",
     "Ring/LL 93.0/20.4; Ring/LL128 142.0/293.6; Ring/Simple 456.4/384.0",
     "8:Tree/LL(35.2us) 262144:Tree/LL128(69.9us) "
     "8388608:NVLSTree/Simple(153.3us) 1073741824:Ring/Simple(5813.6us)",
     "8:Ring/LL(42.7us) 1048576:Ring/LL128(82.7us) "
     "134217728:Ring/Simple(484.2us)",
     "1024:35.33 16384:37.90 262144:69.93 4194304:118.67 67108864:465.81 "
     "1073741824:5813.56"},
    {"H100x4", 1, 4, "2.28.9", 370.8, 370.8,
     "ring 12x30/30 NVL/PIX same; tree[BALANCED_TREE] 12x30/30 NVL/PIX same; "
     "nvls 4x60/60 NVL/PIX",
     24,
     "Tree/LL 10.4/43.6; Tree/LL128 21.5/128.8; Tree/Simple 32.4/165.6; Ring/LL "
     "10.2/94.0; Ring/LL128 25.4/220.8; Ring/Simple 28.8/240.0; NVLS/Simple "
     "25.0/160.0",
     "Ring/LL 8.4/188.0; Ring/LL128 19.7/441.6; Ring/Simple 18.6/480.0; "
     "NVLS/Simple 25.0/114.8",
     "Ring/LL 7.2/141.0; Ring/LL128 15.9/331.2; Ring/Simple 11.8/360.0",
     "8:Ring/LL(10.2us) 4194304:Ring/LL128(44.4us) 16777216:Ring/Simple(98.7us)",
     "8:Ring/LL(8.4us) 4194304:Ring/Simple(27.3us)",
     "1024:10.21 16384:10.37 262144:12.99 4194304:44.40 67108864:308.42 "
     "1073741824:4502.72"},
    {"H100x2", 1, 2, "2.28.9", 370.8, 370.8,
     "ring 12x30/30 NVL/PIX same; tree[BALANCED_TREE] 12x60/60 NVL/PIX; nvls "
     "2x60/60 NVL/PIX",
     24,
     "Tree/LL 8.0/61.1; Tree/LL128 16.5/180.6; Tree/Simple 16.4/232.2; Ring/LL "
     "7.8/141.0; Ring/LL128 17.8/331.2; Ring/Simple 15.2/360.0; NVLS/Simple "
     "25.0/102.0",
     "Ring/LL 7.2/282.0; Ring/LL128 15.9/662.4; Ring/Simple 11.8/720.0; "
     "NVLS/Simple 25.0/25.5",
     "Ring/LL 7.2/141.0; Ring/LL128 15.9/331.2; Ring/Simple 11.8/360.0",
     "8:Ring/LL(7.8us) 2097152:Ring/Simple(21.0us)", "8:Ring/LL(7.2us) 4194304:Ring/Simple(17.6us)",
     "1024:7.81 16384:7.92 262144:9.66 4194304:26.85 67108864:201.61 "
     "1073741824:2997.82"},
    {"A100x8s", 1, 8, "2.28.9", 240.0, 240.0,
     "ring 12x20/20 NVL/PIX same; tree[BALANCED_TREE] 12x20/20 NVL/PIX same", 24,
     "Tree/LL 15.2/29.1; Tree/LL128 31.5/85.9; Tree/Simple 64.4/110.4; Ring/LL "
     "15.0/50.1; Ring/LL128 40.6/126.2; Ring/Simple 56.0/137.1",
     "Ring/LL 10.8/100.2; Ring/LL128 27.3/252.3; Ring/Simple 32.2/274.3",
     "Ring/LL 7.2/87.7; Ring/LL128 15.9/220.8; Ring/Simple 11.8/240.0",
     "8:Ring/LL(15.0us) 4194304:Ring/LL128(73.8us) 33554432:Ring/Simple(300.7us)",
     "8:Ring/LL(10.8us) 4194304:Ring/LL128(43.9us) 16777216:Ring/Simple(93.4us)",
     "1024:15.02 16384:15.33 262144:20.23 4194304:73.84 67108864:545.34 "
     "1073741824:7885.37"},
    {"A100x8s", 2, 16, "2.28.9", 24.0, 240.0,
     "ring 8x24/24 NVL/PXN; tree[BALANCED_TREE] 1x0.1/0.1 SYS/SYS same", 2,
     "Tree/LL 30.8/0.0; Tree/Simple 92.4/0.0; Ring/LL 68.0/6.4; Ring/Simple "
     "204.4/12.8",
     "Ring/LL 37.3/12.8; Ring/Simple 106.4/25.6", "Ring/LL 49.8/12.0; Ring/Simple 232.4/24.0",
     "8:Tree/LL(31.5us) 512:Ring/LL(68.1us) 4194304:Ring/Simple(613.8us)",
     "8:Ring/LL(37.3us) 2097152:Ring/Simple(188.3us)",
     "1024:68.16 16384:70.56 262144:108.96 4194304:613.84 67108864:5529.04 "
     "1073741824:84172.23"},
    {"A100x8s", 4, 32, "2.28.9", 24.0, 240.0,
     "ring 8x24/24 NVL/PXN; tree[BALANCED_TREE] 1x0.1/0.1 SYS/SYS same", 2,
     "Tree/LL 40.8/0.0; Tree/Simple 120.4/0.0; Ring/LL 134.8/6.2; Ring/Simple "
     "428.4/12.4",
     "Ring/LL 70.7/12.4; Ring/Simple 218.4/24.8", "Ring/LL 93.0/12.0; Ring/Simple 456.4/24.0",
     "8:Tree/LL(41.5us) 2048:Ring/LL(135.1us) 8388608:Ring/Simple(1277.0us)",
     "8:Ring/LL(70.7us) 4194304:Ring/Simple(387.7us)",
     "1024:134.79 16384:137.45 262144:177.13 4194304:812.01 67108864:6017.40 "
     "1073741824:87282.04"},
    {"B200x8", 1, 8, "2.28.9", 721.8, 721.8,
     "ring 16x45/45 NVL/PIX same; tree[BALANCED_TREE] 16x40/40 NVL/PIX same; "
     "nvls 8x80/90 NVL/PIX",
     32,
     "Tree/LL 15.2/77.5; Tree/LL128 31.5/229.0; Tree/Simple 64.4/294.4; Ring/LL "
     "15.0/161.1; Ring/LL128 40.6/378.5; Ring/Simple 56.0/411.4; NVLS/Simple "
     "25.0/411.4",
     "Ring/LL 10.8/322.3; Ring/LL128 27.3/757.0; Ring/Simple 32.2/822.9; "
     "NVLS/Simple 25.0/362.6",
     "Ring/LL 7.2/282.0; Ring/LL128 15.9/662.4; Ring/Simple 11.8/720.0",
     "8:Ring/LL(15.0us) 4194304:NVLS/Simple(35.2us)",
     "8:Ring/LL(10.8us) 16777216:Ring/LL128(49.5us) "
     "67108864:Ring/Simple(113.8us)",
     "1024:15.01 16384:15.10 262144:16.63 4194304:35.19 67108864:188.11 "
     "1073741824:2634.79"},
    {"B200x8", 2, 16, "2.28.9", 48.0, 721.8,
     "ring 8x48/48 NVL/PXN; tree[TREE] 8x96/48 NVL/PIX; nvls 8x48/48 NVL/PIX", 16,
     "Tree/LL 25.2/16.6; Tree/LL128 48.5/107.7; Tree/Simple 92.4/145.5; Ring/LL "
     "40.0/20.8; Ring/LL128 75.2/147.6; Ring/Simple 131.6/204.8; "
     "NVLSTree/Simple 66.8/265.2",
     "Ring/LL 23.3/41.6; Ring/LL128 44.6/295.3; Ring/Simple 70.0/409.6",
     "Ring/LL 49.8/39.0; Ring/LL128 78.0/276.8; Ring/Simple 232.4/384.0",
     "8:Tree/LL(25.2us) 262144:Tree/LL128(52.6us) "
     "2097152:NVLSTree/Simple(74.7us)",
     "8:Ring/LL(23.3us) 1048576:Ring/LL128(48.2us) 33554432:Ring/Simple(151.9us)",
     "1024:25.27 16384:26.61 262144:52.56 4194304:82.61 67108864:319.83 "
     "1073741824:4115.36"},
    {"L40x4", 1, 4, "2.28.9 2.30.7", 24.0, 24.0,
     "ring 2x12/12 PHB/PIX same; tree[BALANCED_TREE] 2x12/12 PHB/PIX same", 4,
     "Tree/LL 12.8/2.9; Tree/Simple 32.4/11.0; Ring/LL 12.6/8.0; Ring/Simple "
     "42.6/16.0",
     "Ring/LL 9.6/16.0; Ring/Simple 25.5/32.0", "Ring/LL 7.6/12.0; Ring/Simple 14.1/24.0",
     "8:Ring/LL(12.6us) 524288:Ring/Simple(75.4us)", "8:Ring/LL(9.6us) 524288:Ring/Simple(41.9us)",
     "1024:12.73 16384:14.65 262144:45.37 4194304:304.74 67108864:4236.90 "
     "1073741824:67151.47"},
    {"L40x8", 1, 8, "2.28.9 2.30.7", 24.0, 24.0,
     "ring 1x10/10 SYS/PIX same; tree[BALANCED_TREE] 1x10/10 SYS/PIX same", 2,
     "Tree/LL 20.8/1.2; Tree/Simple 64.4/4.6; Ring/LL 20.6/2.9; Ring/Simple "
     "88.2/5.7",
     "Ring/LL 13.6/5.7; Ring/Simple 48.3/11.4", "Ring/LL 7.6/5.0; Ring/Simple 14.1/10.0",
     "8:Ring/LL(20.6us) 524288:Ring/Simple(180.0us)",
     "8:Ring/LL(13.6us) 524288:Ring/Simple(94.2us)",
     "1024:20.96 16384:26.33 262144:112.35 4194304:822.20 67108864:11832.25 "
     "1073741824:187993.03"},
    {"L40x8", 2, 16, "2.28.9 2.30.7", 12.5, 24.0,
     "ring 2x10/10 SYS/SYS crossNic2; tree[BALANCED_TREE] 2x9/9 SYS/SYS", 4,
     "Tree/LL 30.8/2.2; Tree/Simple 92.4/8.3; Ring/LL 40.0/5.3; Ring/Simple "
     "196.0/10.7",
     "Ring/LL 23.3/10.7; Ring/Simple 102.2/21.3", "Ring/LL 49.8/10.0; Ring/Simple 232.4/20.0",
     "8:Tree/LL(30.8us) 32768:Ring/LL(46.1us) 4194304:Ring/Simple(667.6us)",
     "8:Ring/LL(23.3us) 2097152:Ring/Simple(200.5us)",
     "1024:31.32 16384:41.54 262144:89.15 4194304:667.62 67108864:6565.86 "
     "1073741824:100937.69"},
    {"L40x2", 1, 2, "2.28.9", 24.0, 24.0,
     "ring 2x12/12 PHB/PIX same; tree[BALANCED_TREE] 2x20/20 PHB/PIX", 4,
     "Tree/LL 8.8/4.8; Tree/Simple 16.4/18.4; Ring/LL 8.6/12.0; Ring/Simple "
     "19.8/24.0",
     "Ring/LL 7.6/24.0; Ring/Simple 14.1/48.0", "Ring/LL 7.6/12.0; Ring/Simple 14.1/24.0",
     "8:Ring/LL(8.6us) 524288:Ring/Simple(41.6us)", "8:Ring/LL(7.6us) 524288:Ring/Simple(25.0us)",
     "1024:8.69 16384:9.97 262144:30.45 4194304:194.56 67108864:2816.00 "
     "1073741824:44759.04"},
    {"A100x2", 1, 2, "2.28.9", 240.0, 240.0,
     "ring 12x20/20 NVL/PIX same; tree[BALANCED_TREE] 12x40/40 NVL/PIX", 24,
     "Tree/LL 8.0/37.9; Tree/LL128 16.5/112.0; Tree/Simple 16.4/144.0; Ring/LL "
     "7.8/87.7; Ring/LL128 17.8/220.8; Ring/Simple 15.2/240.0",
     "Ring/LL 7.2/175.4; Ring/LL128 15.9/441.6; Ring/Simple 11.8/480.0",
     "Ring/LL 7.2/87.7; Ring/LL128 15.9/220.8; Ring/Simple 11.8/240.0",
     "8:Ring/LL(7.8us) 1048576:Ring/Simple(19.6us)", "8:Ring/LL(7.2us) 2097152:Ring/Simple(16.2us)",
     "1024:7.81 16384:7.99 262144:10.79 4194304:32.68 67108864:294.82 "
     "1073741824:4489.12"},
    {"A100x2", 2, 4, "2.28.9", 12.5, 240.0,
     "ring 1x12/12 NVL/PHB same; tree[BALANCED_TREE] 1x24/12 NVL/PHB same", 2,
     "Tree/LL 18.0/2.9; Tree/Simple 44.4/11.0; Ring/LL 20.0/4.0; Ring/Simple "
     "60.4/8.0",
     "Ring/LL 13.3/8.0; Ring/Simple 34.4/16.0", "Ring/LL 9.3/6.0; Ring/Simple 22.4/12.0",
     "8:Tree/LL(18.0us) 16384:Ring/LL(24.1us) 524288:Tree/Simple(139.4us) "
     "1048576:Ring/Simple(215.6us) 4194304:Tree/Simple(587.1us) "
     "16777216:Ring/Simple(2181.7us) 67108864:Tree/Simple(7642.8us)",
     "8:Ring/LL(13.3us) 524288:Ring/Simple(67.2us)",
     "1024:18.39 16384:24.10 262144:85.54 4194304:587.14 67108864:7642.78 "
     "1073741824:97303.62"},
    {"ONE90", 2, 2, "2.28.9", 1.2, 48.0,
     "ring 1x1.2/1.2 LOC/PHB same; tree[TREE] 1x2.4/1.2 LOC/PHB same", 2,
     "Tree/LL 16.8/0.2; Tree/Simple 36.4/0.9; Ring/LL 16.6/0.6; Ring/Simple "
     "36.4/1.2",
     "Ring/LL 11.6/1.2; Ring/Simple 22.4/2.4; PAT/Simple 17.6/1.8",
     "Ring/LL 9.3/0.6; Ring/Simple 22.4/1.2", "8:Ring/LL(16.6us) 65536:Ring/Simple(105.6us)",
     "8:Ring/LL(11.6us) 32768:PAT/Simple(35.8us) 65536:Ring/Simple(49.7us)",
     "1024:18.31 16384:43.91 262144:269.41 4194304:3546.21 67108864:55975.02 "
     "1073741824:894835.81"},
    {"ONE90", 4, 4, "2.28.9 2.30.7", 1.2, 48.0,
     "ring 1x1.2/1.2 LOC/PHB same; tree[TREE] 1x2.4/1.2 LOC/PHB same", 2,
     "Tree/LL 26.8/0.1; Tree/Simple 64.4/0.5; Ring/LL 36.6/0.4; Ring/Simple "
     "92.4/0.8",
     "Ring/LL 21.6/0.8; Ring/Simple 50.4/1.6; PAT/Simple 27.2/0.9",
     "Ring/LL 9.3/0.6; Ring/Simple 22.4/1.2",
     "8:Tree/LL(26.9us) 2048:Ring/LL(41.7us) 131072:Ring/Simple(293.2us)",
     "8:Ring/LL(21.6us) 65536:Ring/Simple(91.4us)",
     "1024:36.01 16384:77.56 262144:457.04 4194304:5372.24 67108864:84015.43 "
     "1073741824:1342306.50"},
    {"ONE90", 8, 8, "2.28.9", 1.2, 48.0,
     "ring 1x1.2/1.2 LOC/PHB same; tree[TREE] 1x2.4/1.2 LOC/PHB same", 2,
     "Tree/LL 36.8/0.1; Tree/Simple 92.4/0.5; Ring/LL 76.6/0.3; Ring/Simple "
     "204.4/0.7",
     "Ring/LL 41.6/0.7; Ring/Simple 106.4/1.4; PAT/Simple 42.4/0.9",
     "Ring/LL 9.3/0.6; Ring/Simple 22.4/1.2",
     "8:Tree/LL(36.9us) 8192:Ring/LL(100.5us) 262144:Ring/Simple(668.5us)",
     "8:Ring/LL(41.6us) 4096:PAT/Simple(47.0us) 262144:Ring/Simple(297.5us)",
     "1024:46.01 16384:124.39 262144:668.45 4194304:6402.85 67108864:98153.24 "
     "1073741824:1566159.50"},
    {"V100x8", 1, 8, "2.28.9 2.30.7", 40.0, 120.0,
     "ring 6x20/20 NVL/PIX; tree[BALANCED_TREE] 6x20/20 NVL/PIX", 12,
     "Tree/LL 15.2/14.5; Tree/LL128 31.5/42.9; Tree/Simple 64.4/55.2; Ring/LL "
     "15.0/22.3; Ring/LL128 40.6/63.1; Ring/Simple 56.0/68.6",
     "Ring/LL 10.8/44.6; Ring/LL128 27.3/126.2; Ring/Simple 32.2/137.1",
     "Ring/LL 11.4/39.0; Ring/LL128 29.2/110.4; Ring/Simple 40.4/120.0",
     "8:Ring/LL(15.0us) 1048576:Ring/LL128(57.2us) 16777216:Ring/Simple(300.7us)",
     "8:Ring/LL(10.8us) 2097152:Ring/LL128(43.9us) 8388608:Ring/Simple(93.4us)",
     "1024:15.05 16384:15.74 262144:26.76 4194304:107.09 67108864:1034.67 "
     "1073741824:15714.73"},
    {"V100x8", 2, 16, "2.28.9 2.30.7", 12.0, 120.0,
     "ring 4x12/12 NVL/PIX; tree[BALANCED_TREE] 4x20/12 NVL/PIX", 8,
     "Tree/LL 25.2/9.7; Tree/LL128 48.5/34.5; Tree/Simple 92.4/36.8; Ring/LL "
     "40.0/12.8; Ring/LL128 75.2/23.6; Ring/Simple 131.6/25.6",
     "Ring/LL 23.3/25.6; Ring/LL128 44.6/47.1; Ring/Simple 70.0/51.2",
     "Ring/LL 49.8/24.0; Ring/LL128 78.0/44.2; Ring/Simple 232.4/48.0",
     "8:Tree/LL(25.2us) 131072:Ring/LL(50.2us) 524288:Tree/LL128(73.8us) "
     "536870912:Tree/Simple(14681.3us)",
     "8:Ring/LL(23.3us) 2097152:Ring/LL128(89.1us) 16777216:Ring/Simple(397.7us)",
     "1024:25.32 16384:27.62 262144:60.48 4194304:200.47 67108864:2209.82 "
     "1073741824:29270.17"},
    {"A100x8", 2, 16, "2.28.9 2.30.7", 24.0, 240.0,
     "ring 8x24/24 NVL/PIX; tree[BALANCED_TREE] 8x30/24 NVL/PIX", 16,
     "Tree/LL 25.2/11.2; Tree/LL128 48.5/80.0; Tree/Simple 92.4/94.4; Ring/LL "
     "68.0/12.0; Ring/LL128 78.0/85.3; Ring/Simple 204.4/102.4",
     "Ring/LL 37.3/24.0; Ring/LL128 46.0/170.7; Ring/Simple 106.4/204.8",
     "Ring/LL 49.8/22.5; Ring/LL128 78.0/160.0; Ring/Simple 232.4/192.0",
     "8:Tree/LL(25.2us) 262144:Tree/LL128(54.0us) 16777216:Ring/LL128(274.6us) "
     "134217728:Ring/Simple(1596.9us)",
     "8:Ring/LL(37.3us) 262144:Ring/LL128(47.5us) 67108864:Ring/Simple(434.1us)",
     "1024:25.30 16384:27.28 262144:53.96 4194304:114.04 67108864:864.43 "
     "1073741824:10771.92"},
    {"A100x8", 4, 32, "2.28.9", 24.0, 240.0,
     "ring 8x24/24 NVL/PIX; tree[BALANCED_TREE] 8x30/24 NVL/PIX", 16,
     "Tree/LL 35.2/9.5; Tree/LL128 65.5/66.8; Tree/Simple 120.4/71.2; Ring/LL "
     "134.8/9.8; Ring/LL128 150.0/82.6; Ring/Simple 428.4/99.1",
     "Ring/LL 70.7/19.6; Ring/LL128 82.0/165.2; Ring/Simple 218.4/198.2",
     "Ring/LL 93.0/19.0; Ring/LL128 142.0/160.0; Ring/Simple 456.4/192.0",
     "8:Tree/LL(35.2us) 262144:Tree/LL128(72.0us) 33554432:Ring/LL128(556.3us) "
     "268435456:Ring/Simple(3308.6us)",
     "8:Ring/LL(70.7us) 262144:Ring/LL128(83.6us) "
     "268435456:Ring/Simple(1572.8us)",
     "1024:35.32 16384:37.66 262144:72.05 4194304:144.05 67108864:962.65 "
     "1073741824:11435.04"},
    {"B200x8", 1, 8, "2.30.7", 721.8, 721.8,
     "ring 16x45/45 NVL/PIX same; tree[BALANCED_TREE] 16x45/45 NVL/PIX same; "
     "nvls 8x80/90 NVL/PIX",
     32,
     "Tree/LL 15.2/87.2; Tree/LL128 31.5/257.6; Tree/Simple 64.4/331.2; Ring/LL "
     "15.0/161.1; Ring/LL128 40.6/365.7; Ring/Simple 56.0/411.4; NVLS/Simple "
     "25.0/411.4",
     "Ring/LL 10.8/322.3; Ring/LL128 27.3/731.4; Ring/Simple 32.2/822.9; "
     "NVLS/Simple 25.0/362.6",
     "Ring/LL 7.2/282.0; Ring/LL128 15.9/640.0; Ring/Simple 11.8/720.0",
     "8:Ring/LL(15.0us) 4194304:NVLS/Simple(35.2us)",
     "8:Ring/LL(10.8us) 16777216:Ring/LL128(50.2us) 33554432:Ring/Simple(73.0us)",
     "1024:15.01 16384:15.10 262144:16.63 4194304:35.19 67108864:188.11 "
     "1073741824:2634.79"},
    {"B200x8", 2, 16, "2.30.7", 48.0, 721.8,
     "ring 8x48/48 NVL/PXN; tree[TREE] 8x96/48 NVL/PIX; nvls 8x48/48 NVL/PIX", 16,
     "Tree/LL 25.2/16.6; Tree/LL128 48.5/107.7; Tree/Simple 92.4/145.5; Ring/LL "
     "40.0/20.8; Ring/LL128 75.2/170.7; Ring/Simple 131.6/204.8; "
     "NVLSTree/Simple 66.8/265.2",
     "Ring/LL 23.3/41.6; Ring/LL128 44.6/341.3; Ring/Simple 70.0/409.6",
     "Ring/LL 49.8/39.0; Ring/LL128 78.0/320.0; Ring/Simple 232.4/384.0",
     "8:Tree/LL(25.2us) 262144:Tree/LL128(52.6us) "
     "2097152:NVLSTree/Simple(80.0us)",
     "8:Ring/LL(23.3us) 1048576:Ring/LL128(47.7us) 67108864:Ring/Simple(233.8us)",
     "1024:25.27 16384:26.61 262144:52.56 4194304:89.39 67108864:383.09 "
     "1073741824:4115.36"},
};

#endif
