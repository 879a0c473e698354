/* Lanes come apart where they may, in PTX that is otherwise what it was. */
#include "base/cm.h"
#include "cuda/lanes.h"

/* The text with lanes apart, and at how many places. */
static int parted(const char *ptx, at_text *text)
{
    at_text_init(text);
    const int places = at_ptx_part_lanes(ptx, text);
    assert_ok(at_text_status(text, "PTX"));
    if (places == 0) {
        assert_string_equal(text->data, ptx);
    }
    return places;
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    while ((text = strstr(text, words)) != NULL) {
        text += strlen(words);
        ++count;
    }
    return count;
}

static void they_part_between_what_waits(void **state)
{
    static const struct {
        const char *ptx;
        int places;
    } cases[] = {
        {"", 0},
        {"st.shared.f32 [%r1], %f1; ld.shared.f32 %f2, [%r2]; ret;", 1},
        {"ld.shared.f32 %f2, [%r2];\nadd.f32 %f1, %f2, %f2;\nst.shared.f32 [%r1], %f1; ret;", 1},
        {"ld.shared.v4.f32 {%f2, %f3, %f4, %f5}, [%r2];\n@%p1 st.volatile.shared.v2.f32 [%r1], {%f1, %f2}; ret;", 1},
        {"st.f32 [%rd1], %f1; ld.shared::cta.f32 %f2, [%r2+4]; ret;", 1},
        {"\t// begin inline asm\n\tst.shared.f32 [%r1], %f1;\n\t// end inline asm\nld.shared.f32 %f2, [%r2]; ret;", 1},
        {"st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.shared.f32 [%r1], %f1; bar.warp.sync -1; ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.shared.f32 [%r1], %f1; shfl.sync.bfly.b32 %r3|%p1, %r4, 1, 31, -1; ld.shared.f32 %f2, [%r2];", 0},
        {"st.shared.f32 [%r1], %f1; // bar.sync 0;\nL1: ld.shared.f32 %f2, [%r2]; bra L1;", 0},
        {"st.shared.f32 [%r1], %f1; @%p1 bra L1; ld.shared.f32 %f2, [%r2]; L1: ret;", 0},
        {"{st.shared.f32 [%r1], %f1;} ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.global.f32 [%rd1], %f1; ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.shared.f32 [%r1], %f1; ld.param.u64 %rd1, [a]; ld.const.f32 %f1, [c]; ret;", 0},
        {"st.async.shared::cluster.b32 [%r1], %r2, [%r3]; ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.shared.f32 [%r1], %f1; atom.shared.add.u32 %r3, [%r2], 1; ld.shared.f32 %f2, [%r2]; ret;", 0},
        {"st.shared.f32 [%r1], %f1; ld.shared.f32 %f2, [%r2]; bar.sync 0;\n"
         "st.shared.f32 [%r1], %f2; ld.shared.f32 %f3, [%r2]; ret;",
         2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        at_text text;
        assert_int_equal(parted(cases[i].ptx, &text), cases[i].places);
        assert_int_equal(count_of(text.data, "$attune_later_"), 2 * cases[i].places);
        at_text_free(&text);
    }
}

/* All of a run is there twice and in its order, what is around it once. */
static void a_run_is_there_twice(void **state)
{
    static const char head[] =
        ".visible .entry k(.param .u64 p)\n.maxntid 32\n{\n.reg .f32 %f<3>;\nmov.u32 %r1, %tid.x;";
    static const char run[] = "\nst.shared.f32 [%r1], %f1;\nld.shared.f32 %f2, [%r2];";
    static const char tail[] = "\nst.global.f32 [%rd1], %f2;\nret;\n}\n";
    at_text ptx, text;
    (void)state;
    at_text_init(&ptx);
    at_text_add(&ptx, "%s\nbar.sync 0;%s\nbar.sync 0;%s", head, run, tail);
    assert_int_equal(parted(ptx.data, &text), 1);
    assert_int_equal(count_of(text.data, run), 2);
    assert_int_equal(count_of(text.data, "bar.sync 0;"), 2);
    assert_true(strncmp(text.data, head, strlen(head)) == 0);
    assert_string_equal(text.data + text.length - strlen(tail), tail);
    const char *later = strstr(text.data, "$attune_later_0:");
    assert_non_null(later);
    assert_true(strstr(text.data, run) < later && strstr(later, run) > later);
    at_text_free(&ptx);
    at_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_part_between_what_waits),
        cmocka_unit_test(a_run_is_there_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
