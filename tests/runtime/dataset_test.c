/* Data sets: real formats are read and refused by name; synthetic ones are the same everywhere. */
#include "runtime/gzip.h"
#include "runtime/status.h"
#include "runtime/train/dataset.h"
#include "tests/runtime/data_files.h"
#include "tests/test.h"

enum { INPUTS_MAX = 3 * 32 * 32 };

/* The set of a name, in a part; NULL: it is refused, by `err`. */
static struct tutti_dataset *open_part(const char *name, enum tutti_dataset_part part,
                                       struct tutti_err *err)
{
    struct tutti_dataset *set = NULL;
    struct tutti_dataset_ask ask = {.name = name, .part = part, .seed = 7};

    err->text[0] = '\0';
    (void)tutti_dataset_open(&ask, &set, err);
    return set;
}

static struct tutti_dataset *open_in(const struct data_folder *folder, const char *kind,
                                     enum tutti_dataset_part part, struct tutti_err *err)
{
    char name[DATA_PATH_BYTES];

    (void)snprintf(name, sizeof(name), "%s:%s", kind, folder->path);
    return open_part(name, part, err);
}

/* Opening the training part fails, and says `expected`, in which FOLDER is the folder. */
static void expect_refusal(const struct data_folder *folder, const char *kind, const char *expected)
{
    char text[TUTTI_ERR_TEXT_BYTES] = "";
    size_t used = 0;
    struct tutti_err err;
    struct tutti_dataset *set = open_in(folder, kind, TUTTI_DATASET_TRAINING, &err);

    CHECK(set == NULL);
    tutti_dataset_close(set);
    for (const char *p = expected; *p != '\0' && used + 64 < sizeof(text);) {
        if (strncmp(p, "FOLDER", 6) == 0) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", folder->path);
            p += 6;
        } else {
            text[used++] = *p++;
        }
    }
    text[used] = '\0';
    CHECK_TEXT(err.text, text);
}

/* ---- files ---- */

TEST(mnist_is_read_as_it_lies_in_its_files)
{
    struct data_folder folder;
    struct tutti_err err;
    struct tutti_dataset *set;
    float inputs[INPUTS_MAX];
    float target = -1;

    data_folder_open(&folder);
    mnist_files(&folder, "train", 12);
    mnist_files(&folder, "t10k", 3);
    set = open_in(&folder, "mnist", TUTTI_DATASET_TRAINING, &err);
    REQUIRE(set != NULL);
    CHECK_INT(set->example_count, 12);
    CHECK_INT(set->channels, 1);
    CHECK_INT(tutti_dataset_input_count(set), 784);
    CHECK_INT(set->class_count, 10);
    CHECK_INT(set->file_count, 1);
    CHECK_OK(set->read(set, 11, inputs, &target, &err), err);
    CHECK(target == 1.0f);
    CHECK(inputs[0] == 1.0f);
    CHECK(inputs[1] == 11.0f / 255.0f);
    CHECK(inputs[783] == 11.0f / 255.0f);
    tutti_dataset_close(set);
    set = open_in(&folder, "fashion-mnist", TUTTI_DATASET_HELD_OUT, &err);
    REQUIRE(set != NULL);
    CHECK_INT(set->example_count, 3);
    tutti_dataset_close(set);
    data_folder_remove(&folder);
}

TEST(cifar_is_read_across_its_files_channels_first)
{
    struct data_folder folder;
    struct tutti_err err;
    struct tutti_dataset *set;
    float inputs[INPUTS_MAX];
    float target = -1;

    data_folder_open(&folder);
    cifar_files(&folder, 4);
    set = open_in(&folder, "cifar10", TUTTI_DATASET_TRAINING, &err);
    REQUIRE(set != NULL);
    CHECK_INT(set->example_count, 20);
    CHECK_INT(set->file_count, 5);
    CHECK_INT(set->file_example_count, 4);
    CHECK_OK(set->read(set, 13, inputs, &target, &err), err); /* the second of file 4 */
    CHECK(target == 3.0f);
    CHECK(inputs[0] == 23.0f / 255.0f);
    CHECK(inputs[1024] == 33.0f / 255.0f);
    CHECK(inputs[3071] == 43.0f / 255.0f);
    tutti_dataset_close(set);
    set = open_in(&folder, "cifar10", TUTTI_DATASET_HELD_OUT, &err);
    REQUIRE(set != NULL);
    CHECK_OK(set->read(set, 0, inputs, &target, &err), err);
    CHECK(inputs[0] == 30.0f / 255.0f);
    tutti_dataset_close(set);
    data_folder_remove(&folder);
}

TEST(the_first_examples_alone_lie_in_the_first_files)
{
    struct data_folder folder;
    struct tutti_dataset *set = NULL;
    char name[DATA_PATH_BYTES];
    struct tutti_dataset_ask ask = {.name = name, .example_limit = 9};
    struct tutti_err err;

    data_folder_open(&folder);
    cifar_files(&folder, 4);
    (void)snprintf(name, sizeof(name), "cifar10:%s", folder.path);
    CHECK_OK(tutti_dataset_open(&ask, &set, &err), err);
    CHECK_INT(set->example_count, 9);
    CHECK_INT(set->file_count, 3);
    tutti_dataset_close(set);
    data_folder_remove(&folder);
}

TEST(what_is_wrong_with_idx_files_is_named)
{
    struct data_folder folder;
    uint8_t header[16 + IMAGE_BYTES] = {0};

    data_folder_open(&folder);
    expect_refusal(
        &folder, "mnist",
        "data set 'mnist': cannot open 'FOLDER/train-images-idx3-ubyte': No such file or "
        "directory");
    mnist_files(&folder, "train", 2);
    data_file(&folder, "train-images-idx3-ubyte", header, 15);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte' has 15 bytes, less than a "
                   "header's (16)");
    put_big_endian(header, 2049);
    data_file(&folder, "train-images-idx3-ubyte", header, 16);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte' begins with the number 2049 "
                   "(IDX of images has 2051)");
    put_big_endian(header, 2051);
    put_big_endian(header + 8, 28);
    put_big_endian(header + 12, 28);
    data_file(&folder, "train-images-idx3-ubyte", header, 16);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte' holds 0 items (at least 1)");
    put_big_endian(header + 4, 1);
    data_file(&folder, "train-images-idx3-ubyte", header, sizeof(header) - 1);
    expect_refusal(
        &folder, "mnist",
        "data set 'mnist': 'FOLDER/train-images-idx3-ubyte' has 799 bytes, and its header "
        "says 1 items (800 bytes)");
    put_big_endian(header + 8, 14);
    put_big_endian(header + 12, 56);
    data_file(&folder, "train-images-idx3-ubyte", header, sizeof(header));
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte' has images of 14 x 56 (28 x "
                   "28)");
    put_big_endian(header + 8, 28);
    put_big_endian(header + 12, 28);
    data_file(&folder, "train-images-idx3-ubyte", header, sizeof(header));
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-labels-idx1-ubyte' holds 2 labels, and "
                   "'FOLDER/train-images-idx3-ubyte' 1 images");
    put_big_endian(header, 2049);
    header[8] = 10;
    data_file(&folder, "train-labels-idx1-ubyte", header, 9);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-labels-idx1-ubyte': label 0 is 10 (0 to 9)");
    data_folder_remove(&folder);
}

/* A file of the folder, packed by the command: FILE becomes FILE.gz. */
static void pack(struct data_folder *folder, const char *name)
{
    char line[DATA_PATH_BYTES];
    char packed[64];

    (void)snprintf(line, sizeof(line), "gzip -n -f '%s/%s'", folder->path, name);
    REQUIRE(system(line) == 0);
    (void)snprintf(packed, sizeof(packed), "%s.gz", name);
    REQUIRE(folder->count < 16);
    (void)snprintf(folder->files[folder->count++], sizeof(folder->files[0]), "%s", packed);
}

/* Without zlib one line says what to do. */
static void expect_unpacked(const struct data_folder *folder)
{
    struct tutti_err err;
    struct tutti_dataset *set = open_in(folder, "mnist", TUTTI_DATASET_TRAINING, &err);
    float inputs[INPUTS_MAX];
    float target = -1;

    if (tutti_gzip_version() == NULL) {
        CHECK(set == NULL);
        CHECK(strstr(err.text, "is compressed, and ") != NULL);
        CHECK(strstr(err.text, "gunzip") != NULL);
        return;
    }
    REQUIRE(set != NULL);
    CHECK_INT(set->example_count, 5000);
    CHECK_OK(set->read(set, 4777, inputs, &target, &err), err);
    CHECK(target == 7.0f);
    CHECK(inputs[783] == (float)(4777 % 256) / 255.0f);
    tutti_dataset_close(set);
}

/* MNIST as it is distributed: 5000 images are 4 MB, more than the first piece of memory. */
TEST(files_of_gzip_are_unpacked)
{
    struct data_folder folder;

    if (system("gzip --version >/dev/null 2>&1") != 0)
        SKIP("no gzip here to pack files with");
    data_folder_open(&folder);
    mnist_files(&folder, "train", 5000);
    pack(&folder, "train-images-idx3-ubyte");
    expect_unpacked(&folder); /* and the labels as they lie */
    pack(&folder, "train-labels-idx1-ubyte");
    expect_unpacked(&folder);
    data_folder_remove(&folder);
}

TEST(what_is_wrong_with_files_of_gzip_is_named)
{
    struct data_folder folder;
    char path[DATA_PATH_BYTES];
    const uint8_t plain[4] = {0};

    if (tutti_gzip_version() == NULL || system("gzip --version >/dev/null 2>&1") != 0)
        SKIP("no zlib or no gzip here");
    data_folder_open(&folder);
    data_file(&folder, "train-images-idx3-ubyte.gz", plain, 4);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte.gz' is not of gzip, whatever "
                   "its name says");
    mnist_files(&folder, "train", 40);
    pack(&folder, "train-images-idx3-ubyte");
    (void)snprintf(path, sizeof(path), "%s/train-images-idx3-ubyte.gz", folder.path);
    REQUIRE(truncate(path, 60) == 0);
    expect_refusal(&folder, "mnist",
                   "data set 'mnist': 'FOLDER/train-images-idx3-ubyte.gz' is damaged or cut off: "
                   "FOLDER/train-images-idx3-ubyte.gz: unexpected end of file");
    data_folder_remove(&folder);
}

TEST(what_is_wrong_with_cifar_files_is_named)
{
    struct data_folder folder;
    uint8_t record[RECORD_BYTES] = {10};
    struct tutti_dataset *set;
    float inputs[INPUTS_MAX];
    float target;
    struct tutti_err err;
    char expected[TUTTI_ERR_TEXT_BYTES];

    data_folder_open(&folder);
    cifar_files(&folder, 2);
    data_file(&folder, "data_batch_3.bin", record, RECORD_BYTES - 1);
    expect_refusal(&folder, "cifar10",
                   "data set 'cifar10': 'FOLDER/data_batch_3.bin' has 3072 bytes (records of 3073 "
                   "bytes, at least one)");
    data_file(&folder, "data_batch_3.bin", record, RECORD_BYTES);
    expect_refusal(&folder, "cifar10",
                   "data set 'cifar10': 'FOLDER/data_batch_3.bin' has 3073 bytes, and "
                   "'FOLDER/data_batch_1.bin' 6146 (equally many)");
    data_file(&folder, "test_batch.bin", record, RECORD_BYTES);
    set = open_in(&folder, "cifar10", TUTTI_DATASET_HELD_OUT, &err);
    REQUIRE(set != NULL);
    CHECK_INT(set->read(set, 0, inputs, &target, &err), -TUTTI_EINVAL);
    (void)snprintf(expected, sizeof(expected),
                   "'%s/test_batch.bin': the label of record 0 is 10 (0 to 9)", folder.path);
    CHECK_TEXT(err.text, expected);
    data_file(&folder, "test_batch.bin", record, 1); /* cut off under our feet */
    CHECK_INT(set->read(set, 0, inputs, &target, &err), -TUTTI_EIO);
    (void)snprintf(expected, sizeof(expected),
                   "'%s/test_batch.bin' ends at byte 1 now, and had 3073 when it was opened",
                   folder.path);
    CHECK_TEXT(err.text, expected);
    tutti_dataset_close(set);
    data_folder_remove(&folder);
}

TEST(names_are_refused_with_what_would_do)
{
    struct tutti_err err;

    CHECK(open_part("mnits:/tmp", TUTTI_DATASET_TRAINING, &err) == NULL);
    CHECK_TEXT(err.text,
               "unknown data set 'mnits:/tmp' (mnist:FOLDER, fashion-mnist:FOLDER, "
               "cifar10:FOLDER, synthetic-mnist, synthetic-cifar10, synthetic-text, line)");
    CHECK(open_part("cifar10", TUTTI_DATASET_TRAINING, &err) == NULL);
    CHECK_TEXT(err.text, "data set 'cifar10': no folder of its files (cifar10:FOLDER)");
    CHECK(open_part("line:/tmp", TUTTI_DATASET_TRAINING, &err) == NULL);
    CHECK_TEXT(err.text, "data set 'line:/tmp' has no files (just line)");
}

/* ---- synthetic ---- */

/* A hash of an example's inputs, as whole numbers of 255ths. */
static uint64_t fingerprint(const struct tutti_dataset *set, uint64_t index, float *ret_target)
{
    float inputs[INPUTS_MAX];
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    struct tutti_err err;

    CHECK_OK(set->read(set, index, inputs, ret_target, &err), err);
    for (uint64_t i = 0; i < tutti_dataset_input_count(set); i++) {
        int byte = (int)(inputs[i] * 255.0f + 0.5f);

        CHECK(inputs[i] >= 0);
        CHECK(inputs[i] <= 1);
        hash = (hash ^ (uint64_t)byte) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Written down once: any build on any machine makes the same example. */
static void expect_example(const char *name, uint64_t training_count, int64_t expected,
                           int expected_class)
{
    struct tutti_err err;
    struct tutti_dataset *training = open_part(name, TUTTI_DATASET_TRAINING, &err);
    struct tutti_dataset *held_out = open_part(name, TUTTI_DATASET_HELD_OUT, &err);
    float target = -1;
    float again = -1;

    REQUIRE(training != NULL);
    REQUIRE(held_out != NULL);
    CHECK_INT(training->example_count, training_count);
    CHECK_INT(held_out->example_count, 10000);
    CHECK_INT(training->file_count, 0);
    CHECK_INT(fingerprint(training, 123, &target), fingerprint(training, 123, &again));
    CHECK(target == again);
    CHECK(fingerprint(training, 123, &target) != fingerprint(held_out, 123, &again));
    CHECK_INT(fingerprint(training, 123, &target), expected);
    CHECK_INT(target, expected_class);
    tutti_dataset_close(training);
    tutti_dataset_close(held_out);
}

TEST(synthetic_examples_are_a_function_of_seed_part_and_index)
{
    expect_example("synthetic-cifar10", 50000, INT64_C(3232549849236570250), 3);
    expect_example("synthetic-mnist", 60000, INT64_C(-2798560381047363159), 5);
}

/* Least squares of 1000 points find the slope 2 and the intercept 1 to a few times
 * 0.01 / sqrt(1000) / the input's deviation of 0.29. */
TEST(a_line_is_a_line_with_noise)
{
    struct tutti_err err;
    struct tutti_dataset *set = open_part("line", TUTTI_DATASET_TRAINING, &err);
    double n, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    double slope, intercept, rest;

    REQUIRE(set != NULL);
    CHECK_INT(set->class_count, 0);
    CHECK_INT(tutti_dataset_input_count(set), 1);
    n = (double)set->example_count;
    for (uint64_t i = 0; i < set->example_count; i++) {
        float input, target;

        CHECK_OK(set->read(set, i, &input, &target, &err), err);
        x += (double)input / n;
        y += (double)target / n;
        xx += (double)input * (double)input / n;
        xy += (double)input * (double)target / n;
        yy += (double)target * (double)target / n;
    }
    slope = (xy - x * y) / (xx - x * x);
    intercept = y - slope * x;
    rest = yy - y * y - slope * (xy - x * y); /* variance that is left: the noise's, 1e-4 */
    CHECK(slope > 1.996 && slope < 2.004);
    CHECK(intercept > 0.998 && intercept < 1.002);
    CHECK(rest > 0.8e-4 && rest < 1.2e-4);
    tutti_dataset_close(set);
}
