"""In TensorFlow, in processes of their own."""
