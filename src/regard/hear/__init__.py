"""The attention of a running model, computed by any function: `attached` which models are followed,
`hooks` the module at work and `inputs` its arguments, `functions` and `flex` calls of other
packages as calls of ours, `handwritten` modules without any, `unheard` what gave nothing."""
