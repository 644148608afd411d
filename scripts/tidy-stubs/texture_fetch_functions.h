// Empty on purpose: clang's CUDA wrapper includes this header, which CUDA 13 no longer has.
