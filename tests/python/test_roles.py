"""The table of roles says what the library says: contiguous arrays of its shapes have the strides that attune_call_init
gives, and exactly the roles that it has."""
import ctypes as c

import pytest

from attune import library, roles
from attune.tensors import View, contiguous

BSHD = 1
TEXTS = ["b2,h4,hkv2,sq3,skv5,d16,dv8,fp32", "b2,h4,hkv2,sq3,skv5,d16,fp16,bias=1xh,mask,alibi,sink,seqused",
         "b2,h4,sq3,skv5,d16,fp16,bias=bx1", "b3,h4,hkv2,sq3,skv5,d16,fp32,varlen", "b1,h1,s1,d8,fp32",
         "b3,h4,hkv2,sq3,skv40,d16,fp32,seqused,page=16", "b3,h4,hkv2,sq3,skv40,d16,fp32,seqused,page=16,vtable,draft",
         "b3,h4,hkv2,sq3,skv40,d16,fp32,varlen,seqused,page=16", "append:b3,h2,sq3,skv40,d16,dv8,fp32,page=16,slots",
         "append:b3,h2,sq3,skv40,d16,fp32,seqused,page=16", "append:b3,h2,sq3,skv40,d16,fp32,seqused",
         "append:b3,h2,sq3,skv40,d16,fp32,varlen,seqused", "merge:b3,h4,sq3,d16,fp32,states=4",
         "merge:b3,h4,sq3,d16,fp32,o=fp16,states=4,sink"]


def begun(problem):
    call, lib = library.Call(), library.default()
    lib.check(lib.c.attune_call_init_sized(c.byref(call), c.byref(problem), c.sizeof(call)))
    return call


def contiguous_views(problem, table, call):
    sizes = {name: getattr(call, name) for name in roles.SIZES}
    sizes.update(head_dim_qk=problem.head_dim_qk, head_dim_v=problem.head_dim_v, page_size=problem.page_size)
    sizes["batch+1"] = sizes["batch"] + 1
    views = {}
    for name, role in table.items():
        shape = roles.wanted_shape(problem, role, sizes)
        strides = contiguous(shape)
        if problem.layout == BSHD and name in ("K", "V") and len(shape) == 4:
            strides = contiguous([shape[i] for i in (0, 2, 1, 3)])
            strides = tuple([strides[i] for i in (0, 2, 1, 3)])
        views[name] = View(shape, strides, call.tensor[role.index].dtype)
    return sizes, views


@pytest.mark.parametrize("text", TEXTS)
def test_tables_agree(text):
    problem = library.default().problem(text)
    table, optional = roles.roles_of(problem)
    call, mine = begun(problem), library.Call()
    sizes, views = contiguous_views(problem, table, call)
    found = roles.sizes_of(problem, table, views)
    assert {name: found[name] for name in roles.SIZES if getattr(call, name)} == {
        name: getattr(call, name) for name in roles.SIZES if getattr(call, name)}
    for name, view in views.items():
        role = table[name]
        roles.fill(mine, role, view)
        for place, extent in zip(role.places, view.shape):
            if place == roles.STATE:
                member = "state_stride_o" if name == "STATE_O" else "state_stride_lse"
                assert getattr(mine, member) == getattr(call, member), (name, member)
            elif place != roles.INNER and extent > 1:
                assert mine.tensor[role.index].stride[place] == call.tensor[role.index].stride[place], (name, place)
    given = {library.ROLES[i] for i in range(len(library.ROLES)) if any(call.tensor[i].stride)}
    assert given - set(optional) == set(table) - set(optional)


def test_structs_are_as_long_as_the_librarys():
    """A library that knows more than the struct here says so by refusing; one that knows less, too."""
    problem = library.Problem()
    library.default().c.attune_problem_init_sized(c.byref(problem), c.sizeof(problem))
    assert problem.size == c.sizeof(problem)
    assert begun(library.default().problem(TEXTS[0])).size == c.sizeof(library.Call)
