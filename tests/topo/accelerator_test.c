/* Tests of the catalogue of accelerators: it agrees with the presets, and finds what logs name. */
#include "runtime/status.h"
#include "tests/folder.h"
#include "tests/test.h"
#include "topo/accelerator.h"
#include "topo/presets/models.h"
#include "topo/topo.h"
#include "traces/training.h"

#define GIGA UINT64_C(1000000000)

static const struct tutti_accelerator *found(const char *name)
{
    const struct tutti_accelerator *device = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_accelerator_find(name, &device, &err), err);
    return device;
}

static const char *named(const char *name)
{
    const struct tutti_accelerator *device = found(name);

    return device != NULL ? device->name : "none";
}

TEST(every_gpu_of_the_presets_is_there_with_the_same_peak_and_memory_rate)
{
    size_t i = 0;

    for (; tutti_gpu_model_at(i) != NULL; i++) {
        const struct tutti_gpu_model *model = tutti_gpu_model_at(i);
        const struct tutti_accelerator *device = found(model->name);
        const uint64_t *peaks;

        if (device == NULL)
            continue;
        peaks = device->flops_per_s;
        CHECK_TEXT(device->name, model->name);
        CHECK_INT(device->mem_bytes_per_s, model->mem_mbyte_per_s * (GIGA / 1000));
        CHECK_INT(peaks[TUTTI_PRECISION_BF16] > 0 ? peaks[TUTTI_PRECISION_BF16]
                                                  : peaks[TUTTI_PRECISION_FP16],
                  model->giga_flops * GIGA);
    }
    CHECK(i > 60);
}

TEST(figures_of_each_line_are_of_one_device)
{
    size_t count;
    const struct tutti_accelerator *all = tutti_accelerators(&count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *peaks = all[i].flops_per_s;

        CHECK(all[i].mem_bytes >= UINT64_C(7) << 30);
        CHECK(all[i].mem_bytes <= UINT64_C(300) << 30);
        CHECK(strlen(all[i].source) > 10);
        CHECK(strlen(all[i].vendor) > 2);
        CHECK_TEXT(named(all[i].name), all[i].name);
        CHECK(peaks[TUTTI_PRECISION_TF32] <= peaks[TUTTI_PRECISION_BF16]);
        CHECK(peaks[TUTTI_PRECISION_FP32] <= peaks[TUTTI_PRECISION_BF16] ||
              peaks[TUTTI_PRECISION_BF16] == 0);
        CHECK(peaks[TUTTI_PRECISION_BF16] <= peaks[TUTTI_PRECISION_FP8] ||
              peaks[TUTTI_PRECISION_FP8] == 0);
        /* A vector unit does a multiply-add for 64 or 128 lanes a clock and unit: NVIDIA's fp32. */
        if (strcmp(all[i].vendor, "NVIDIA") == 0 && all[i].clock_mhz > 0) {
            double lanes = (double)peaks[TUTTI_PRECISION_FP32] /
                           (2e6 * (double)all[i].units * all[i].clock_mhz);

            if ((lanes < 58 || lanes > 68) && (lanes < 116 || lanes > 145) && lanes < 185)
                TEST_FAIL("%s: %.0f lanes a unit", all[i].name, lanes);
        }
    }
    CHECK(count > 80);
}

TEST(names_as_logs_and_tools_spell_them)
{
    static const char *const pairs[][2] = {
        {"H100", "h100"},
        {"H100-SXM5-80GB", "h100"},
        {"NVIDIA H100 80GB HBM3", "h100"},
        {"h100_80gb", "h100"},
        {"NVIDIA H100-PCIe-80GB", "h100-pcie"},
        {"H100 NVL Tensor Core GPU (PCIe)", "h100-nvl"},
        {"NVIDIA H100 80GB (4 of 8 per node)", "h100"},
        {"A100-SXM4-80GB", "a100"},
        {"a100_40gb", "a100-40g"},
        {"NVIDIA_A100-SXM4-40GB", "a100-40g"},
        {"A100 40GB PCIe", "a100-pcie-40g"},
        {"NVIDIA A100 - PCIe - 80 GB", "a100-pcie"},
        {"NVIDIA A100-PCIe-40GB(250W)", "a100-pcie-40g"},
        {"A800-80GB", "a800"},
        {"Tesla V100-SXM2-16GB", "v100"},
        {"Tesla V100-SXM3-32GB", "v100-32g"},
        {"V100 16GB", "v100"},
        {"NVIDIA V100 SXM2 32GB", "v100-32g"},
        {"Nvidia Tesla V100S-PCIe-32GB", "v100s"},
        {"NVIDIA Tesla P100 SXM2", "p100"},
        {"NVIDIA Pascal P100", "p100"},
        {"Tesla P40", "p40"},
        {"NVIDIA Tesla K80", "k80"},
        {"Quadro RTX 8000", "rtx8000"},
        {"Quadro RTX 6000", "rtx6000"},
        {"RTX 6000 Ada", "rtx6000ada"},
        {"RTX A6000", "a6000"},
        {"GeForce RTX 2080 Ti", "rtx2080ti"},
        {"GeForce RTX 2080 Super with Max-Q Design", "rtx2080super-maxq"},
        {"GeForce RTX 2070 with Max-Q Design", "rtx2070-maxq"},
        {"GeForce GTX 1080 Ti", "gtx1080ti"},
        {"GeForce RTX 3080", "rtx3080"},
        {"NVIDIA RTX Pro 6000 SE PCIe 96GB", "rtxpro6000"},
        {"NVIDIA GH200", "gh200"},
        {"NVIDIA Blackwell GPU (GB200)", "gb200"},
        {"NVIDIA Blackwell Ultra GPU (B300-SXM-270GB)", "b300"},
        {"p6-b300 (8xB300, 16x400G EFA)", "b300"},
        {"DGX-GB300", "gb300"},
        {"NVIDIA H200-NVL-141GB", "h200-nvl"},
        {"H200", "h200"},
        {"AMD Instinct MI300X 192GB HBM3", "mi300x"},
        {"AMD Instinct MI325X 256GB HBM3e", "mi325x"},
        {"AMD Radeon RX 7900 XTX", "rx7900xtx"},
        {"Vega 20", "radeonvii"},
        {"Gaudi 2", "gaudi2"},
        {"Intel(R) Gaudi(R) 2 AI Accelerator", "gaudi2"},
        {"Habana Gaudi HL-205", "gaudi"},
        {"Ascend 910 Pro A", "ascend910"},
        {"Iluvatar BI-V100 32GB", "biv100"},
        {"TPU v3", "tpu-v3"},
        {"TPU-v5p", "tpu-v5p"},
        {"tpu-v5e", "tpu-v5e"},
        {"TPU v2 (256 chips, 512 cores)", "tpu-v2"},
        {"TPU-trillium", "tpu-v6e"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(named(pairs[i][0]), pairs[i][1]) != 0)
            TEST_FAIL("'%s' is taken for %s", pairs[i][0], named(pairs[i][0]));
}

/* All that shipped tables of training steps name, but for what names none. */
TEST(devices_of_the_measured_tables_are_known)
{
    static const char folder[] = TUTTI_SOURCE_DIR "/traces/measured/training";
    size_t count;
    size_t rows_seen = 0;
    char **files = list_files(folder, ".csv", &count);

    for (size_t i = 0; i < count; i++) {
        struct tutti_training_rows rows = {.row_count = 0};
        struct tutti_err err = {""};
        char path[1024];
        size_t bytes = 0;
        char *text;

        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        text = test_read_file(path, &bytes);
        if (tutti_training_parse(files[i], text, bytes, &rows, &err) == 0)
            for (size_t r = 0; r < rows.row_count; r++) {
                const char *gpu = rows.rows[r].settings.gpu;

                if (gpu[0] == '\0' || strcmp(gpu, "see source") == 0)
                    continue;
                rows_seen++;
                (void)found(gpu);
            }
        tutti_training_free(&rows);
        free(text);
    }
    free_files(files, count);
    CHECK(rows_seen > 3000);
}

TEST(what_is_not_there_is_refused_with_the_nearest)
{
    const struct tutti_accelerator *device = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_accelerator_find("h10", &device, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "did you mean 'h100'?") != NULL);
    CHECK_INT(tutti_accelerator_find("TPU", &device, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_accelerator_find("", &device, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_accelerator_find("Graphcore Bow IPU", &device, &err), -TUTTI_EINVAL);
    CHECK(device == NULL);
}

static const char *device_of(const char *spec)
{
    const struct tutti_accelerator *device;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    device = topo != NULL ? tutti_topo_accelerator(topo) : NULL;
    tutti_topo_free(topo);
    return device != NULL ? device->name : "none";
}

TEST(a_machine_says_what_its_devices_are)
{
    static const char *const pairs[][2] = {
        {"dgx-1p", "p100"},
        {"dgx-1v", "v100"},
        {"dgx-2", "v100-32g"},
        {"dgx-a100:nodes=2", "a100"},
        {"dgx-h100:gpus=2", "h100"},
        {"hgx-h200", "h200"},
        {"hgx-b200", "b200"},
        {"hgx-b300", "b300"},
        {"gb200-nvl72", "gb200"},
        {"mi300x", "mi300x"},
        {"host", "h100"},
        {"host:gpus=4,gpu=a100-40g", "a100-40g"},
        {"host:gpu=a800,gpus=2", "a800"},
        {"pcie:gpu=t4", "t4"},
        {"pcie", "none"},
        {"tpu-v2:4x4", "tpu-v2"},
        {"tpu-v3:4x4", "tpu-v3"},
        {"tpu-v4:4x4x4", "tpu-v4"},
        {"tpu-v5e:2x4", "tpu-v5e"},
        {"tpu-v5p:4x4x4", "tpu-v5p"},
        {"tpu-v6e:4x4", "tpu-v6e"},
        {"tpu-v7x:4x4x4", "tpu-v7x"},
        {"ring:n=4", "none"},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (strcmp(device_of(pairs[i][0]), pairs[i][1]) != 0)
            TEST_FAIL("%s is of %s", pairs[i][0], device_of(pairs[i][0]));
}

static const char *device_in(const char *text)
{
    const struct tutti_accelerator *device;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("box", text, strlen(text), &topo, &err), err);
    device = topo != NULL ? tutti_topo_accelerator(topo) : NULL;
    tutti_topo_free(topo);
    return device != NULL ? device->name : "none";
}

TEST(a_machine_of_a_file_is_known_by_its_figures)
{
    CHECK_TEXT(device_in("topology box\nsource a test\n"
                         "node a device rank=0 flops=989T mem=3350GB/s\n"
                         "node b device rank=1 flops=989T mem=3350GB/s\n"
                         "cable a b nvlink 450GB/s 1us\n"),
               "h100");
    CHECK_TEXT(device_in("topology box\nsource two kinds\n"
                         "node a device rank=0 flops=989T mem=3350GB/s\n"
                         "node b device rank=1 flops=312T mem=2039GB/s\n"
                         "cable a b nvlink 300GB/s 1us\n"),
               "none");
    /* Its name alone does not make it one. */
    CHECK_TEXT(device_in("topology dgx-h100\nsource a test\n"
                         "node a device rank=0 flops=1T mem=1GB/s\n"
                         "node b device rank=1 flops=1T mem=1GB/s\n"
                         "cable a b nvlink 300GB/s 1us\n"),
               "none");
}

TEST(precisions_fall_back_to_the_next_wider)
{
    enum tutti_precision precision;
    struct tutti_err err = {""};

    CHECK_INT(tutti_accelerator_flops(found("a100"), TUTTI_PRECISION_FP8), 312000 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("h100"), TUTTI_PRECISION_FP4), 1979000 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("v100"), TUTTI_PRECISION_BF16), 15700 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("v100"), TUTTI_PRECISION_TF32), 15700 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("p40"), TUTTI_PRECISION_FP16), 11760 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("tpu-v4"), TUTTI_PRECISION_FP16), 275000 * GIGA);
    CHECK_INT(tutti_accelerator_flops(found("tpu-v4"), TUTTI_PRECISION_FP32), 0);
    for (int p = 0; p < TUTTI_PRECISION_COUNT; p++) {
        CHECK_OK(
            tutti_precision_find(tutti_precision_name((enum tutti_precision)p), &precision, &err),
            err);
        CHECK_INT(precision, p);
    }
    CHECK_OK(tutti_precision_find("Mixed", &precision, &err), err);
    CHECK_INT(precision, TUTTI_PRECISION_FP16);
    CHECK_INT(tutti_precision_find("fp6", &precision, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "mixed") != NULL);
}
