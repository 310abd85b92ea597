/* Small models of tutorials: a line, a perceptron for MNIST, a convolutional network for CIFAR-10,
 * a classifier of texts by the words in them. */
#include "runtime/workload/image.h"

/* y = a x + b of one number, the mean square error as its loss. */
static void linear_regression(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    b->frame = (struct tutti_feature_map){1, 1, 1};
    b->sample_bytes = 8;
    tutti_image_layer(b, "dense", 1);
    tutti_image_dense(b, "dense", 1);
    tutti_image_loss(b);
}

static void mlp(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    enum { HIDDEN = 128 };

    (void)kind;
    tutti_image_input(b, 1);
    tutti_image_flatten(b);
    tutti_image_layer(b, "hidden", 1);
    tutti_image_dense(b, "hidden", HIDDEN);
    tutti_image_activation(b, "relu");
    tutti_image_layer(b, "classes", 1);
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

static void cifar10_cnn(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_image_input(b, 3);
    tutti_image_layer(b, "conv1", 1);
    tutti_image_conv_bias(b,
                          (struct tutti_conv){"conv1", .kernel = 3, .channels = 32, .valid = true});
    tutti_image_pool(b, "pool1", 2, 2, true);
    tutti_image_layer(b, "conv2", 1);
    tutti_image_conv_bias(b,
                          (struct tutti_conv){"conv2", .kernel = 3, .channels = 64, .valid = true});
    tutti_image_pool(b, "pool2", 2, 2, true);
    tutti_image_layer(b, "conv3", 1);
    tutti_image_conv_bias(b,
                          (struct tutti_conv){"conv3", .kernel = 3, .channels = 64, .valid = true});
    tutti_image_flatten(b);
    tutti_image_layer(b, "hidden", 1);
    tutti_image_dense(b, "hidden", 64);
    tutti_image_activation(b, "relu");
    tutti_image_layer(b, "classes", 1);
    tutti_image_dense(b, "classes", b->classes);
    tutti_image_loss(b);
}

/* The mean of the vectors of a text's words, of whose table a step touches some rows alone. */
static void bag_of_words(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    enum { VOCABULARY = 10000, WORDS = 32, COLUMNS = 16, HIDDEN = 16, CLASSES = 4 };

    (void)kind;
    tutti_build_layer(b, "embedding", 1, WORDS);
    tutti_build_step(b, "embedding", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE, WORDS * COLUMNS,
                     COLUMNS);
    tutti_build_variable(b, (struct tutti_variable){.name = "words",
                                                    .rows = VOCABULARY,
                                                    .elements = VOCABULARY * COLUMNS,
                                                    .touched_rows = WORDS});
    b->frame = (struct tutti_feature_map){1, 1, COLUMNS};
    b->sample_bytes = 4 * WORDS + 4;
    tutti_image_layer(b, "hidden", 1);
    tutti_image_dense(b, "hidden", HIDDEN);
    tutti_image_activation(b, "relu");
    tutti_image_layer(b, "classes", 1);
    tutti_image_dense(b, "classes", CLASSES);
    tutti_image_loss(b);
}

static const struct tutti_model_kind kinds[] = {
    {.name = "linear-regression",
     .summary = "a line: a weight and a bias",
     .source = "the first model of tf.distribute's guide: Dense(1) of one number",
     .sample = TUTTI_SAMPLE_ROW,
     .build = linear_regression},
    {.name = "mlp",
     .summary = "784-128-10 perceptron for MNIST",
     .source = "the beginners' model of TensorFlow's tutorials",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 10,
     .image = 28,
     .image_min = 1,
     .examples = 60000,
     .build = mlp},
    {.name = "cifar10-cnn",
     .summary = "three convolutions for CIFAR-10",
     .source = "the convolutional network of TensorFlow's tutorials",
     .sample = TUTTI_SAMPLE_IMAGE,
     .classes = 10,
     .image = 32,
     .image_min = 18,
     .examples = 50000,
     .build = cifar10_cnn},
    {.name = "bag-of-words",
     .summary = "texts by the mean of their words",
     .source = "the text classifier of TensorFlow's tutorials (Embedding of 10000 x 16, pooling, "
               "Dense), with a hidden layer of 16",
     .sample = TUTTI_SAMPLE_ROW,
     .examples = 20000,
     .build = bag_of_words},
};

const struct tutti_model_family tutti_family_mlp = {kinds, sizeof(kinds) / sizeof(kinds[0])};
