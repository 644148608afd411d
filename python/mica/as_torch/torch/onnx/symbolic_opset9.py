"""torch.onnx.symbolic_opset9: operators of ONNX, of which mica writes its own."""
