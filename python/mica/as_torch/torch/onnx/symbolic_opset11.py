"""torch.onnx.symbolic_opset11: operators of ONNX, of which mica writes its own."""
