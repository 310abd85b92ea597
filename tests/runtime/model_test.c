/* Models held to what is published of them: parameters to the unit, FLOPs; names and sizes that are
 * refused. */
#include "tests/runtime/models.h"

/* ---- parameters ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    uint64_t parameters;
    uint64_t active; /* 0: all */
} published[] = {
    {"linear-regression", 2, 0},
    {"mlp", 101770, 0},
    {"cifar10-cnn", 122570, 0},
    {"bag-of-words", 160340, 0},
    {"alexnet", 61100840, 0},
    {"vgg16", 138357544, 0},
    {"vgg19", 143667240, 0},
    {"inception3", 23817352, 0},
    {"resnet18", 11689512, 0},
    {"resnet34", 21797672, 0},
    {"resnet50", 25557032, 0},
    {"resnet50-v1", 25557032, 0},
    {"resnet101", 44549160, 0},
    {"resnet101-v1", 44549160, 0},
    {"resnet152", 60192808, 0},
    {"resnet152-v1", 60192808, 0},
    {"resnext101", 44177704, 0},
    {"se-resnext101", 48955416, 0},
    {"mobilenetv2", 3504872, 0},
    {"efficientnet-b0", 5288548, 0},
    {"efficientnet-b4", 19341616, 0},
    {"efficientnetv2-s", 21458488, 0},
    {"unet", 31030658, 0},
    {"bert-base", 110106428, 0},
    {"bert-large", 336226108, 0},
    {"bert-base-encoder", 109482240, 0},
    {"bert-large-encoder", 335141888, 0},
    {"bert-base-squad", 108893186, 0},
    {"bert-large-squad", 334094338, 0},
    {"gpt2", 124439808, 0},
    {"gpt2-355m", 354823168, 0},
    {"gpt2-774m", 774030080, 0},
    {"gpt2-1558m", 1557611200, 0},
    {"gpt3-6.7b", 6658404352, 0},
    {"gpt3-175b", 174604259328, 0},
    {"llama2-7b", 6738415616, 0},
    {"llama2-13b", 13015864320, 0},
    {"llama2-70b", 68976648192, 0},
    {"llama3-8b", 8030261248, 0},
    {"llama3-70b", 70553706496, 0},
    {"llama3-405b", 405853388800, 0},
    {"llama3.2-1b", 1235814400, 0},
    {"llama3.2-3b", 3212749824, 0},
    {"mixtral-8x7b", 46702792704, 12879925248},
    {"mixtral-8x22b", 140630071296, 39161468928},
    {"deepseek-v3", 671026419200, 37552297472},
    {"electra-base", 119386427, 0},
    {"transformer-xl-base", 191950298, 0},
    {"gnmt", 160671297, 0},
    {"dlrm", 24036595969, 0},
    {"ncf", 31832577, 0},
    {"vae-cf", 24511308, 0},
};

TEST(parameters_are_those_published)
{
    size_t count = 0;
    struct tutti_model_entry entry;

    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        struct tutti_model_sums sums = sums_of(published[i].name, NULL);
        uint64_t active = published[i].active != 0 ? published[i].active : published[i].parameters;

        if (sums.parameters != published[i].parameters || sums.active_parameters != active)
            TEST_FAIL("%s: %" PRIu64 " parameters, %" PRIu64 " active", published[i].name,
                      sums.parameters, sums.active_parameters);
    }
    while (tutti_model_at(count, &entry))
        count++;
    /* gpt and llama have no shape of their own, 22 detectors a test of their own */
    CHECK_INT(count, sizeof(published) / sizeof(published[0]) + 2 + 22 + 5 + 6);
}

/* 23,454,912 of convolutions, 53,120 of batch normalisations, 2,049,000 of the dense layer; as many
 * moving statistics as scales and shifts. */
TEST(resnet50_in_its_parts)
{
    struct tutti_workload *model = make("resnet50", NULL);
    struct tutti_model_sums sums = tutti_model_sum(model);
    uint64_t norm = 0;
    uint64_t dense = 0;
    uint64_t conv = 0;
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        blocks += layer->repeat;
        for (uint32_t v = 0; v < layer->variable_count; v++) {
            const struct tutti_variable *variable = &layer->variables[v];
            uint64_t elements = layer->repeat * variable->elements;

            if (variable->unreduced)
                continue;
            if (strstr(variable->name, ".norm.") != NULL)
                norm += elements;
            else if (strcmp(layer->name, "classes") == 0)
                dense += elements;
            else
                conv += elements;
        }
    }
    CHECK_INT(conv, 23454912);
    CHECK_INT(norm, 53120);
    CHECK_INT(dense, 2049000);
    CHECK_INT(sums.unreduced, 53120);
    CHECK_INT(sums.variable_count,
              161); /* 53 kernels, 2 x 53 scales and shifts, 2 of the classes */
    CHECK_INT(blocks, 1 + 16 + 1);
    CHECK_INT(model->logits, 1000);
    CHECK_INT(model->examples, 1281167);
    CHECK_INT(model->sample_bytes, 4 * 224 * 224 * 3 + 4);
    tutti_model_free(model);
}

/* What Keras prints is the sum of what is trained and the moving statistics. */
TEST(moving_statistics_are_kept_and_not_reduced)
{
    struct tutti_model_sums mobile = sums_of("mobilenetv2", NULL);
    struct tutti_model_sums two = sums_of("mobilenetv2", SIZES(.classes = 2));
    struct tutti_model_sums inception = sums_of("inception3", NULL);
    struct tutti_model_sums inception4 = sums_of("inception4", NULL);

    CHECK_INT(mobile.parameters + mobile.unreduced, 3538984);
    CHECK_INT(two.parameters, 2226434);
    CHECK_INT(two.parameters + two.unreduced, 2260546);
    CHECK_INT(4 * two.parameters, 8905736); /* the gradient: 8.906 MB at 32 bits */
    CHECK_INT(inception.parameters + inception.unreduced, 23851784);
    /* Published with scales, of which there would be as many as means. */
    CHECK_INT(inception4.parameters + inception4.unreduced / 2, 42679816);
}

/* As torchvision counts them, frozen kernels included and fixed normalisations not. There K + 1
 * classes, the background among them, have boxes and masks as well: 4 x 1025 and 257 parameters
 * less here; and RetinaNet's coarser levels are made of 256 channels, here of 2048: 9 x 256 x 1792
 * more. */
TEST(detectors)
{
    static const struct {
        const char *name;
        uint32_t classes;
        int64_t torchvision;
        int64_t other;
    } known[] = {
        {"faster-rcnn-r50-fpn", 90, 41755286, -4 * 1025},
        {"mask-rcnn-r50-fpn", 90, 44401393, -4 * 1025 - 257},
        {"keypoint-rcnn-r50-fpn", 1, 59137258, -4 * 1025},
        {"retinanet-r50", 91, 34014999, 9 * 256 * 1792},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tutti_workload *model = make(known[i].name, SIZES(.classes = known[i].classes));
        uint64_t kernels = tutti_model_sum(model).parameters;

        for (uint32_t l = 0; l < model->layer_count; l++) {
            const struct tutti_layer *layer = &model->layers[l];

            CHECK_INT(layer->is_frozen, l < 3); /* the stem and two layers of the first stage */
            for (uint32_t v = 0; v < layer->variable_count; v++) {
                if (layer->variables[v].unreduced &&
                    strstr(layer->variables[v].name, ".norm") == NULL)
                    kernels += layer->repeat * layer->variables[v].elements;
            }
            if (layer->is_frozen)
                CHECK_INT(layer->saved.whole_elements, 0);
        }
        CHECK_INT(kernels, known[i].torchvision + known[i].other);
        CHECK_INT(kernels - tutti_model_sum(model).parameters, 9408 + 212992);
        tutti_model_free(model);
    }
}

/* L (12 h^2 + 13 h) + V h + s h + 2 h, of a shape of one's own; Llama 2 7B's with another
 * vocabulary, heads and tied. */
TEST(shapes_of_ones_own)
{
    struct tutti_model_params gpt = {.size = sizeof(gpt), .sequence = 2048, .vocabulary = 51200};
    struct tutti_model_params llama = {.size = sizeof(llama), .sequence = 4096};

    gpt.transformer = (struct tutti_transformer){.layers = 24, .hidden = 2048, .heads = 16};
    CHECK_INT(sums_of("gpt", &gpt).parameters,
              24 * (12 * 2048 * 2048 + 13 * 2048) + 51200 * 2048 + 2048 * 2048 + 2 * 2048);
    /* 1.342e9 and 8.859e9: MHA, a vocabulary of 131072; V h [x 2] + L (4 h^2 + 3 h f + 2 h) + h */
    llama.transformer = (struct tutti_transformer){.layers = 16,
                                                   .hidden = 2048,
                                                   .heads = 32,
                                                   .feed_forward = 8192,
                                                   .vocabulary = 131072,
                                                   .tied = true};
    CHECK_INT(sums_of("llama", &llama).parameters, 1342244864);
    llama.transformer = (struct tutti_transformer){
        .layers = 32, .hidden = 4096, .heads = 32, .feed_forward = 14336, .vocabulary = 131072};
    CHECK_INT(sums_of("llama", &llama).parameters, 8858636288);
    /* f of 0: 8/3 of h up to 256, as in Llama 7B: 11008 of 4096. */
    llama.transformer = (struct tutti_transformer){.layers = 32, .hidden = 4096, .heads = 32};
    CHECK_INT(sums_of("llama", &llama).parameters, 6738415616);
    llama.transformer.kv_heads = 8;
    llama.transformer.feed_forward = 14336;
    llama.transformer.experts = 8;
    llama.transformer.active_experts = 2;
    CHECK_INT(sums_of("llama", &llama).parameters, 46702792704);
    CHECK_INT(sums_of("llama", &llama).active_parameters, 12879925248);
}

/* Published in billions: embeddings 3.2 and 9.4, all else 12.5 and 331.6; and 284 million. */
TEST(parameters_published_in_round_numbers)
{
    static const struct {
        const char *name;
        double embeddings;
        double others;
    } known[] = {{"nemotron4-15b", 3.2e9, 12.5e9}, {"nemotron4-340b", 9.4e9, 331.6e9}};
    double large = (double)sums_of("transformer-xl-large", NULL).parameters;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tutti_workload *model = make(known[i].name, NULL);
        double embeddings = (double)variable_of(layer_of(model, "embedding"), "tokens")->elements +
                            (double)variable_of(layer_of(model, "head"), "head")->elements;
        double others = (double)tutti_model_sum(model).parameters - embeddings;

        CHECK(embeddings > known[i].embeddings - 0.06e9);
        CHECK(embeddings < known[i].embeddings + 0.06e9);
        CHECK(others > known[i].others - 0.06e9);
        CHECK(others < known[i].others + 0.06e9);
        tutti_model_free(model);
    }
    CHECK(large > 283.5e6);
    CHECK(large < 284.5e6);
}

/* Convolutions of nnU-Net, by hand: 27 (4 x 32 + 32^2) and so on down to 320, up with twice the
 * channels, 8 n m and n of the transposed ones, two scales and shifts a stage; 4 classes of 32. The
 * same of U-Net 3D but for the classes' kernel of 27. A remark in NVIDIA's example gives U-Net
 * Industrial 1,824,945, its layers add up to 1.4 % more. */
TEST(segmenters)
{
    static const int64_t f[] = {32, 64, 128, 256, 320, 320};
    int64_t sum = 27 * (4 * f[0] + f[0] * f[0]) + 4 * f[0];

    for (int s = 1; s < 6; s++) {
        sum += 27 * (f[s - 1] * f[s] + f[s] * f[s]) + 4 * f[s];
        sum += 8 * f[s] * f[s - 1] + f[s - 1];
        sum += 27 * 3 * f[s - 1] * f[s - 1] + 4 * f[s - 1];
    }
    CHECK_INT(sums_of("nnunet-3d", NULL).parameters, sum + 4 * f[0] + 4);
    CHECK_INT(sums_of("unet-3d", NULL).parameters, sum + 27 * 4 * f[0] + 4);
    CHECK_INT(sums_of("unet-industrial", NULL).parameters, 1850305);
}

/* 38 x 38 x 4 + 19 x 19 x 6 + 10 x 10 x 6 + 5 x 5 x 6 + 3 x 3 x 4 + 4 boxes, of 4 places and 81
 * classes. */
TEST(ssd_has_8732_boxes)
{
    struct tutti_workload *model = make("ssd300-r50", NULL);

    CHECK_INT(model->logits, 8732 * (4 + 81));
    tutti_model_free(model);
}

/* ---- FLOPs ----------------------------------------------------------------------------------- */

/* Multiply-adds of convolutions and dense layers. */
TEST(multiply_adds_of_image_models)
{
    CHECK_INT(sums_of("resnet50", NULL).flops / 2, 4089184256);
    CHECK_INT(sums_of("resnet50-v1", NULL).flops / 2, 3857973248);
    CHECK_INT(sums_of("mobilenetv2", NULL).flops / 2, 300774272);
    CHECK_INT(sums_of("mobilenetv2", SIZES(.classes = 2)).flops / 2, 299496832);
    CHECK_INT(sums_of("vgg16", NULL).flops / 2, 15470264320);
}

/* A token, forward: products with weights (the head among them), and attention in full. */
TEST(flops_of_transformers)
{
    static const struct {
        const char *name;
        uint64_t sequence;
        uint64_t products;
        uint64_t attention;
    } known[] = {
        {"llama2-7b", 4096, 13214154752, 2147483648},
        {"llama3-8b", 8192, 15009316864, 4294967296},
        {"llama3-70b", 8192, 139003428864, 21474836480},
        {"llama3-405b", 8192, 807495794688, 67645734912},
        {"gpt3-175b", 2048, 349127467008, 9663676416},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tutti_model_sums sums = sums_of(known[i].name, NULL);

        CHECK_INT(sums.attention_flops, known[i].sequence * known[i].attention);
        CHECK_INT(sums.flops - sums.attention_flops, known[i].sequence * known[i].products);
    }
}

/* BERT large of 512 tokens: 666,488,832 + 50,331,648 a token count the layers and the decoder of
 * every token. The model has more: the dense layer before the decoder (2 h^2 a token), the pooler
 * (2 h^2 a sequence), the two classes of the next sentence; and less, as it decodes hidden tokens
 * alone unless all are asked for. */
TEST(flops_of_bert)
{
    enum { S = 512, H = 1024, V = 30522 };
    struct tutti_model_sums all = sums_of("bert-large", SIZES(.predictions = S));
    struct tutti_model_sums some = sums_of("bert-large", NULL);
    uint64_t more = 2 * H * H * (uint64_t)S + 2 * H * H + 2 * 2 * H;

    CHECK_INT(all.attention_flops, UINT64_C(50331648) * S);
    CHECK_INT(all.flops - all.attention_flops, UINT64_C(666488832) * S + more);
    /* 15 % of 512, rounded up: 77 */
    CHECK_INT(all.flops - some.flops,
              (S - 77) * (2 * UINT64_C(1) * H * H + 2 * UINT64_C(1) * H * V));
}

/* Narayanan et al. 2021, appendix: a step of B sequences, 72 B s L h^2 (1 + s/6h + V/12Lh) without
 * and 96 B s L h^2 (1 + s/6h + V/16Lh) with full recomputation. These are three times our forward
 * sum, and with recomputation once more all but the head's; nothing differs but rounding, as
 * biases, normalisations and the lookup are no products in either. */
TEST(megatrons_formula)
{
    struct tutti_workload *model = make("gpt3-175b", SIZES(.vocabulary = 51200));
    struct tutti_model_sums sums = tutti_model_sum(model);
    uint64_t head = operation_of(layer_of(model, "head"), "head")->flops;
    double b = 1536, s = 2048, l = 96, h = 12288, v = 51200;
    double once = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
    double twice = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
    double ours = b * 3 * (double)sums.flops;
    double again = b * (double)(4 * sums.flops - head);

    CHECK(ours > once * (1 - 1e-12));
    CHECK(ours < once * (1 + 1e-12));
    CHECK(again > twice * (1 - 1e-12));
    CHECK(again < twice * (1 + 1e-12));
    CHECK(ours > 3.3855e18);
    CHECK(ours < 3.3865e18);
    CHECK(again > 4.5105e18);
    CHECK(again < 4.5115e18);
    tutti_model_free(model);
}

/* ---- operations ------------------------------------------------------------------------------ */

TEST(products_have_their_true_shapes)
{
    struct tutti_workload *model = make("mobilenetv2", NULL);
    const struct tutti_operation *op = operation_of(layer_of(model, "stage2.first"), "depthwise");

    CHECK_INT(op->count, 96); /* a group a channel: 16 x 6 */
    CHECK_INT(op->rows, 56 * 56);
    CHECK_INT(op->depth, 9);
    CHECK_INT(op->columns, 1);
    CHECK_INT(op->in_elements, 112 * 112 * 96);
    CHECK(operation_of(layer_of(model, "conv1"), "conv1")->no_input_gradient);
    CHECK(!op->no_input_gradient);
    tutti_model_free(model);
    model = make("llama3-70b", NULL);
    op = operation_of(layer_of(model, "layer"), "qkv");
    CHECK_INT(op->rows, 8192);
    CHECK_INT(op->columns, 8192 + 2 * 1024);
    CHECK_INT(op->kv_elements, 8192 * 2 * 1024);
    CHECK_INT(op->split, TUTTI_SPLIT_COLUMNS);
    CHECK_INT(operation_of(layer_of(model, "layer"), "down")->split, TUTTI_SPLIT_ROWS);
    CHECK_INT(operation_of(layer_of(model, "layer"), "attention")->depth, 8192);
    tutti_model_free(model);
    model = make("mixtral-8x7b", NULL);
    op = operation_of(layer_of(model, "layer"), "experts.down");
    CHECK_INT(op->count, 2);
    CHECK_INT(op->flops, UINT64_C(2) * 2 * 4096 * 14336 * 4096);
    CHECK_INT(op->split, TUTTI_SPLIT_EXPERTS);
    tutti_model_free(model);
}

/* Attention of DeepSeek-V3 has 187,107,328 parameters a layer, its norms of compressed rows among
 * them; heads score over 192 columns and use 128. */
TEST(latent_attention)
{
    static const char *const names[] = {"q.down",        "q.norm.scale", "q.up", "kv.down",
                                        "kv.norm.scale", "kv.up",        "proj"};
    struct tutti_workload *model = make("deepseek-v3", NULL);
    const struct tutti_layer *layer = layer_of(model, "experts");
    const struct tutti_operation *op = operation_of(layer, "attention");
    uint64_t elements = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        elements += variable_of(layer, names[i])->elements;
    CHECK_INT(elements, 187107328);
    CHECK_INT(op->flops, UINT64_C(2) * 4096 * 4096 * 128 * (192 + 128));
    CHECK_INT(layer->repeat, 58);
    CHECK_INT(layer_of(model, "dense")->repeat, 3);
    CHECK_INT(variable_of(layer, "experts.gate.up")->elements, UINT64_C(256) * 7168 * 2 * 2048);
    CHECK_INT(variable_of(layer, "shared.gate.up")->elements, 7168 * 2 * 2048);
    tutti_model_free(model);
}

/* 187,767,399 rows of 128 columns; 13-512-256-128 and 479-1024-1024-512-256-1 with biases: 171,392
 * + 2,197,505. A sample touches a row of each table; the pairs of 27 vectors are 351, and 128
 * beside. */
TEST(dlrm_has_sparse_tables)
{
    struct tutti_workload *model = make("dlrm", NULL);
    const struct tutti_layer *tables = layer_of(model, "tables");
    uint64_t rows = 0;
    uint64_t touched = 0;

    CHECK_INT(tables->variable_count, 26);
    for (uint32_t i = 0; i < tables->variable_count; i++) {
        rows += tables->variables[i].rows;
        touched += tables->variables[i].touched_rows;
        CHECK_INT(tables->variables[i].elements, tables->variables[i].rows * 128);
    }
    CHECK_INT(rows, 187767399);
    CHECK_INT(touched, 26);
    CHECK_INT(tutti_model_sum(model).parameters - rows * 128, 171392 + 2197505);
    CHECK_INT(operation_of(layer_of(model, "top"), "top1")->depth, 27 * 26 / 2 + 128);
    tutti_model_free(model);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const char *name, const struct tutti_model_params *params, const char *message)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_model_new(name, params, &model, &err), -TUTTI_EINVAL);
    CHECK(model == NULL);
    CHECK_TEXT(err.text, message);
}

TEST(names_and_sizes_that_are_refused)
{
    struct tutti_model_params shape = {.size = sizeof(shape)};

    refused("resnet5", NULL, "unknown model 'resnet5' (did you mean 'resnet50'?)");
    refused("bert-bse", NULL, "unknown model 'bert-bse' (did you mean 'bert-base'?)");
    refused("resnet50", SIZES(.sequence = 128),
            "'resnet50' has no tokens of a sequence, and so not '128' of them");
    refused("gpt2", SIZES(.image = 224), "'gpt2' has no pixels a side, and so not '224' of them");
    refused("gpt2", SIZES(.predictions = 20),
            "'gpt2' has no hidden tokens to predict, and so not '20' of them");
    refused("bert-base", SIZES(.sequence = 128, .predictions = 129),
            "'129' hidden tokens to predict of 'bert-base' (1 to 128)");
    refused("inception3", SIZES(.image = 74), "'74' pixels a side of 'inception3' (75 to 16384)");
    refused("gpt2", SIZES(.sequence = (1 << 20) + 1),
            "'1048577' tokens of a sequence of 'gpt2' (1 to 1048576)");
    refused("gpt", NULL,
            "'gpt' has no shape of its own (such as 'gpt:layers=24,hidden=2048,heads=16')");
    shape.transformer = (struct tutti_transformer){.layers = 2, .hidden = 100, .heads = 3};
    refused("gpt2", &shape, "'gpt2' has a shape of its own ('gpt' and 'llama' take another)");
    refused("gpt", &shape, "'3' heads do not divide 100 hidden columns");
    shape.transformer.heads = 4;
    shape.transformer.kv_heads = 2;
    refused("gpt", &shape, "'gpt' has no experts, no grouped queries and no gate ('llama' has)");
    shape.transformer.kv_heads = 3;
    refused("llama", &shape, "'3' heads of keys and values do not divide 4 heads");
    shape.transformer.kv_heads = 2;
    shape.transformer.experts = 4;
    refused("llama", &shape, "'0' active experts of a transformer (1 to 4)");
    shape.transformer.active_experts = 1;
    shape.transformer.vocabulary = 7;
    shape.vocabulary = 8;
    refused("llama", &shape, "a vocabulary of '8' words, and of '7' (one of them)");
    shape.vocabulary = 0;
    shape.transformer = (struct tutti_transformer){.layers = 1 << 16,
                                                   .hidden = 1 << 18,
                                                   .heads = 1,
                                                   .experts = 1 << 16,
                                                   .active_experts = 1,
                                                   .feed_forward = 1 << 20};
    refused("llama", &shape,
            "'llama' is too large (sums of less than 2^64 elements and operations)");
    shape.size = 3;
    CHECK_INT(tutti_model_new("llama", &shape, &(struct tutti_workload *){NULL}, NULL),
              -TUTTI_EINVAL);
}

/* Smallest images, and sizes between: nothing is divided by zero or below it. */
TEST(images_of_any_size)
{
    static const char *const names[] = {
        "cifar10-cnn",     "alexnet",          "vgg16",      "inception3",
        "resnet50",        "mobilenetv2",      "unet",       "mlp",
        "efficientnet-b0", "efficientnetv2-s", "ssd300-r50", "mask-rcnn-r50-fpn",
        "retinanet-r50",   "nnunet-2d",        "nnunet-3d",  "vnet",
        "unet-industrial"};
    static const uint32_t least[] = {18, 63,  32, 75, 32, 32, 188, 1,  32,
                                     32, 260, 64, 64, 48, 32, 8,   128};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (uint32_t image = least[i]; image < least[i] + 40; image++) {
            struct tutti_workload *model = make(names[i], SIZES(.image = image));

            for (uint32_t l = 0; l < model->layer_count; l++) {
                for (uint32_t o = 0; o < model->layers[l].operation_count; o++)
                    CHECK(model->layers[l].operations[o].out_elements > 0);
            }
            tutti_model_free(model);
        }
    }
}
