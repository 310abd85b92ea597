/* What published tables call their models, and which they are: of the words in our own tables, and
 * of others that were collected. */
#include "tests/runtime/models.h"

static const char *meant(const char *words, uint32_t sequence)
{
    struct tutti_model_params params;
    const char *name = tutti_model_recognize(words, sequence, &params);

    return name == NULL ? "none" : name;
}

TEST(words_of_tables)
{
    static const struct {
        const char *words;
        uint32_t sequence;
        const char *name;
    } known[] = {
        {"ResNet-50", 0, "resnet50"},
        {"ResNet-50 v1.5", 0, "resnet50"},
        {"resnet50_v1", 0, "resnet50-v1"},
        {"Classification/ConvNets/resnet50v1.5", 0, "resnet50"},
        {"Classification/RN50v1.5", 0, "resnet50"},
        {"Classification/ConvNets/resnext101-32x4d", 0, "resnext101"},
        {"Classification/ConvNets/se-resnext101-32x4d", 0, "se-resnext101"},
        {"Classification/ConvNets/efficientnet_v2", 0, "efficientnetv2-s"},
        {"Classification/ConvNets/efficientnet_v1", 0, "none"}, /* B0 or B4 */
        {"InceptionV3", 0, "inception3"},
        {"inception4", 0, "inception4"},
        {"AlexNet", 0, "alexnet"},
        {"VGG16", 0, "vgg16"},
        {"Segmentation/UNet_Medical", 0, "unet"},
        {"Segmentation/UNet_3D_Medical", 0, "unet-3d"},
        {"Segmentation/UNet_Industrial", 0, "unet-industrial"},
        {"Segmentation/VNet", 0, "vnet"},
        {"Segmentation/nnUNet", 0, "none"}, /* of two or three dimensions */
        {"Segmentation/nnUNet Dimension=2", 0, "nnunet-2d"},
        {"Segmentation/MaskRCNN", 0, "mask-rcnn-r50-fpn"},
        {"Detection/SSD", 0, "none"},
        {"ssd", 0, "ssd300-r50"},
        {"Faster R-CNN: R50-FPN 1x", 0, "faster-rcnn-r50-fpn"},
        {"Faster R-CNN: R101-C4 3x", 0, "faster-rcnn-r101-c4"},
        {"RPN & Fast R-CNN: RPN R50-C4 1x", 0, "rpn-r50-c4"},
        {"RPN & Fast R-CNN: Fast R-CNN R50-FPN 1x", 0, "fast-rcnn-r50-fpn"},
        {"COCO Instance Segmentation Baselines with Mask R-CNN: X101-FPN 3x", 0,
         "mask-rcnn-x101-fpn"},
        {"COCO Person Keypoint Detection Baselines with Keypoint R-CNN: R50-FPN 1x", 0,
         "keypoint-rcnn-r50-fpn"},
        {"COCO Panoptic Segmentation Baselines with Panoptic FPN: R50-FPN 1x", 0, "none"},
        {"Other Settings: Baseline R50-FPN 1x", 0, "mask-rcnn-r50-fpn"},
        {"Other Settings: Cascade R-CNN 1x", 0, "none"},
        {"LanguageModeling/BERT", 128, "bert-large"},
        {"LanguageModeling/BERT", 384, "bert-large-squad"},
        {"LanguageModeling/BERT/biobert", 0, "bert-base-squad"},
        {"BERT-base pretrain", 128, "bert-base"},
        {"bert_large_squad", 0, "bert-large-squad"},
        {"LanguageModeling/ELECTRA", 512, "electra-base"},
        {"transformerxllarge", 0, "transformer-xl-large"},
        {"LanguageModeling/Transformer-XL", 0, "transformer-xl-base"},
        {"Llama 3.1 8b", 0, "llama3-8b"},
        {"Llama 3.1 405b", 0, "llama3-405b"},
        {"Llama 3.1 405b (proxy, fewer layers)", 0, "none"},
        {"Llama-2 7B", 0, "llama2-7b"},
        {"Llama-2 70B", 0, "llama2-70b"},
        {"Llama 34B", 0, "none"},
        {"LLAMA4 Maverick 400b", 0, "none"},
        {"Nemotron4 15b", 0, "nemotron4-15b"},
        {"Nemotron-H 56b", 0, "none"},
        {"Deepseek V3", 0, "deepseek-v3"},
        {"Recommendation/NCF", 0, "ncf"},
        {"Recommendation/WideAndDeep", 0, "wide-and-deep"},
        {"Recommendation/SIM", 0, "none"},
        {"", 0, "none"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(meant(known[i].words, known[i].sequence), known[i].name) != 0)
            TEST_FAIL("'%s' is %s", known[i].words, meant(known[i].words, known[i].sequence));
    }
}

TEST(sizes_that_the_words_say)
{
    struct tutti_model_params params = {.classes = 7};

    CHECK_TEXT(tutti_model_recognize("LVIS Mask R-CNN: R50-FPN 1x", 0, &params),
               "mask-rcnn-r50-fpn");
    CHECK_INT(params.classes, 1230);
    CHECK_TEXT(tutti_model_recognize("R50-FPN, Cityscapes", 0, &params), "mask-rcnn-r50-fpn");
    CHECK_INT(params.classes, 8);
    CHECK_INT(params.image, 1024);
    tutti_model_free(make("mask-rcnn-r50-fpn", &params));
    CHECK(tutti_model_recognize("zebra", 0, &params) == NULL);
    CHECK_INT(params.classes, 8);
}

/* Every name that a detector's words mean is one that there is, in the sizes that they say. */
TEST(what_is_recognized_can_be_made)
{
    static const char *const backbones[] = {"R50-C4",   "R50-DC5",  "R50-FPN", "R101-C4",
                                            "R101-DC5", "R101-FPN", "X101-FPN"};
    static const char *const heads[] = {"Faster R-CNN", "Mask R-CNN"};

    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < sizeof(backbones) / sizeof(backbones[0]); i++) {
            struct tutti_model_params params;
            char words[64];
            const char *name;

            snprintf(words, sizeof(words), "%s: %s 3x", heads[h], backbones[i]);
            name = tutti_model_recognize(words, 0, &params);
            REQUIRE(name != NULL);
            tutti_model_free(make(name, &params));
        }
    }
}
